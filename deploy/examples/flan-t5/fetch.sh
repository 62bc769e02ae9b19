#!/bin/sh
# Downloads the model and the data to a folder of this node: sh fetch.sh /tmp/flan
#
# muster runs it once on each node, before the workers start (--node-setup). A node that is started again and still has
# the folder downloads nothing.
set -eu
folder=$1
[ ! -e "$folder/fetched" ] || exit 0
hf download google/flan-t5-base --exclude '*.bin' '*.h5' '*.msgpack' --local-dir "$folder/model"
hf download knkarthick/dialogsum train.csv --repo-type dataset --local-dir "$folder/data"
touch "$folder/fetched"

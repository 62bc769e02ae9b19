#!/bin/sh
# planted_bugs.sh SIMULATOR BUG:SEEDS...: each bug must be caught within so many seeds; and an unknown one must not be.
simulator=$1
shift
failed=0
for entry in "$@"; do
  "$simulator" --bug "${entry%%:*}" --seeds "${entry##*:}" --jobs 2 --until-caught || failed=1
done
exit $failed

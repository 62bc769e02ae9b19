# A training image whose ENTRYPOINT is muster: the same image in every worker pool. From the root of the repository:
#
#   docker build -f deploy/docker/Dockerfile -t muster .
#   docker build -f deploy/docker/training.Dockerfile -t training .
#   docker run --rm training                                      one node, with the CMD below
#
# BASE: an image with Python and torch; `python` or `python3` must be on its PATH. MUSTER: the image of the first line.
ARG BASE=pytorch/pytorch:2.7.1-cuda12.8-cudnn9-runtime
ARG MUSTER=muster
FROM ${MUSTER} AS muster
FROM ${BASE}
COPY --from=muster /muster /usr/local/bin/muster
WORKDIR /app
COPY deploy/examples/train_ddp.py train.py
# The exec form: as process 1 muster gets the signals, passes them on and reaps what the training leaves behind.
ENTRYPOINT ["muster", "run"]
# The script and its arguments. `docker run training OPTIONS SCRIPT ARGUMENTS` replaces this line.
CMD ["train.py", "--checkpoint", "/tmp/checkpoint.pt"]

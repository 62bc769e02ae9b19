#!/usr/bin/env bash
# Builds muster and makes its release files: a wheel, a tar.gz, a .deb and SHA256SUMS.
#
#   bash deploy/package.sh [--arch x86_64] [--out FOLDER]
#
# FOLDER is build/packages by default. Installs the packages that the build needs (deploy/setup.sh). Another build of the
# same commit with the same packages gives the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

arch=x86_64 out=build/packages
usage() { echo "package.sh: $1; usage: bash deploy/package.sh [--arch x86_64] [--out FOLDER]" >&2; exit 64; }
while [ $# -gt 0 ]; do
  case $1 in
    --arch) arch=${2:?package.sh: --arch needs a value} && shift 2 ;;
    --out) out=${2:?package.sh: --out needs a value} && shift 2 ;;
    *) usage "$1: no such option" ;;
  esac
done
[ "$arch" = "$(uname -m)" ] || usage "--arch $arch: this machine can build for $(uname -m) only"

bash deploy/setup.sh
mkdir -p build
cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
cmake --build --preset release --target muster
python3 -B deploy/package/make.py --build build/release --arch "$arch" --out "$out"

#!/usr/bin/env bash
# Builds muster and makes its release files: a wheel, a tar.gz, a .deb, a container image and SHA256SUMS.
#
#   bash deploy/package.sh [--arch x86_64|aarch64] [--out FOLDER]
#
# By default for x86_64, in build/packages. Installs the packages that the build needs (deploy/setup.sh; for aarch64 also
# a cross compiler and an emulator). Another build of the same commit with the same packages gives the same bytes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# What is linked into the program, and its header-only libraries; deploy/setup.sh has them for this machine.
readonly LIBRARIES=(libprotobuf-dev libgrpc++-dev libgrpc-dev libabsl-dev libc-ares-dev libre2-dev libssl-dev zlib1g-dev
  libevent-dev libfmt-dev libspdlog-dev nlohmann-json3-dev libgtest-dev googletest)
readonly SYSROOT=$PWD/build/sysroot-aarch64

arch=x86_64 out=build/packages
readonly USAGE="bash deploy/package.sh [--arch x86_64|aarch64] [--out FOLDER]"
usage() {
  echo "package.sh: $1; usage: $USAGE" >&2
  exit 64
}
while [ $# -gt 0 ]; do
  case $1 in
    --help | -h) echo "Usage: $USAGE" && exit 0 ;;
    --arch | --out) [ -n "${2:-}" ] || usage "$1 needs a value" ;;
    *) usage "$1: no such option" ;;
  esac
  [ "$1" = --out ] || arch=$2
  [ "$1" = --arch ] || out=$2
  shift 2
done
case $(uname -m):$arch in
  x86_64:x86_64) preset=release ;;
  x86_64:aarch64) preset=aarch64 ;;
  *) usage "--arch $arch: cannot be built on $(uname -m)" ;;
esac

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

# Not all -dev packages can be installed for two architectures at once, so those of the other one are unpacked in a
# folder, with a package database of its own that tells which file is whose.
fetch_sysroot() {
  [ ! -e "$SYSROOT/complete" ] || return 0
  as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends g++-aarch64-linux-gnu \
    qemu-user-static >/dev/null
  local -a apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State::Lists=$SYSROOT/lists"
    -o Dir::State::status=/dev/null -o APT::Sandbox::User=)
  mkdir -p "$SYSROOT/lists/partial" "$SYSROOT/debs" "$SYSROOT/var/lib/dpkg/info" "$SYSROOT/var/lib/dpkg/updates"
  : >"$SYSROOT/var/lib/dpkg/status"
  "${apt[@]}" update
  (cd "$SYSROOT/debs" && "${apt[@]}" download "${LIBRARIES[@]}")
  as_root dpkg --root="$SYSROOT" --force-architecture --force-depends --unpack "$SYSROOT"/debs/*.deb \
    >"$SYSROOT/unpack.log" 2>&1 || { cat "$SYSROOT/unpack.log" >&2; return 1; }
  : >"$SYSROOT/complete"
}

bash deploy/setup.sh
[ "$preset" = release ] || fetch_sysroot
mkdir -p build
cmake --preset "$preset" >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
cmake --build --preset "$preset" --target muster
python3 -B deploy/package/make.py --build "build/$preset" --arch "$arch" --out "$out"

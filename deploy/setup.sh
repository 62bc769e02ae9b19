#!/usr/bin/env bash
# Installs what muster is built and tested with, on Debian 12 or Ubuntu 24.04. Needs root or sudo only when
# something is missing; says nothing and changes nothing when all is there, so it may be run before every build.
#
#   deploy/setup.sh            what the build needs
#   deploy/setup.sh --torch    and torch, in the project's own .venv
#   deploy/setup.sh --tests    and torch, the frameworks that are tried with it, and what the tests need
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

readonly TORCH_VERSION=2.13.0
readonly FRAMEWORKS=(accelerate==1.15.0 transformers==5.23.0 lightning==2.6.6 deepspeed==0.19.8)
readonly APT_LOCK_TIMEOUT_S=300  # another apt-get, as of a machine's first boot, is waited for this long

build_packages=(
  g++ cmake ninja-build ccache git ca-certificates
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev libgrpc-dev libabsl-dev libc-ares-dev
  libre2-dev libssl-dev zlib1g-dev libevent-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev librapidcheck-dev python3
)
test_packages=(libmimalloc-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 spin gcc libc6-dev iproute2 procps
  util-linux
  slurmctld slurmd slurm-client openmpi-bin)  # launchers that are tried with muster: 10 MB
venv_packages=(python3-venv python3-pip)

say() { printf 'setup: %s\n' "$*"; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# install_packages NAME...: installs those that are missing.
install_packages() {
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "no apt-get here: please install the likes of: ${missing[*]}" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    say "packages are missing, and installing them needs root or sudo. Have root run this, then start again:" >&2
    printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
    return 1
  fi
  say "installing ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o "DPkg::Lock::Timeout=$APT_LOCK_TIMEOUT_S")
  as_root "${apt[@]}" update
  as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# The torch that a Python has, as its version; nothing where it has none. Reads the metadata: importing takes seconds.
torch_of() {
  "$1" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true
}

# Makes .venv with torch: from pip, else with Debian's python3-torch shining through, else without, and says so.
install_torch() {
  local venv=$root/.venv have
  have=$(torch_of "$venv/bin/python")
  [ -z "$have" ] || return 0
  say "making .venv with torch $TORCH_VERSION (some minutes; with the libraries for GPUs it takes 5 GB of disk)"
  rm -rf "$venv"
  python3 -m venv "$venv"
  if "$venv/bin/python" -m pip install --quiet "torch==$TORCH_VERSION" numpy; then
    return 0
  fi
  say "pip cannot install torch $TORCH_VERSION; trying the distribution's python3-torch"
  rm -rf "$venv"
  install_packages python3-torch || true
  python3 -m venv --system-site-packages "$venv"
  if [ -z "$(torch_of "$venv/bin/python")" ]; then
    say "torch cannot be had here: what needs it will say that it is left out"
  fi
}

has_frameworks() {
  "$1" -c 'import importlib.metadata as m, sys; [m.version(p.split("==")[0]) for p in sys.argv[1:]]' \
    "${FRAMEWORKS[@]}" 2>/dev/null
}

# What real scripts use, beside the torch that is there, which stays as it is. 250 MB; their tests are skipped without.
install_frameworks() {
  local python=$root/.venv/bin/python have
  have=$(torch_of "$python")
  if [ -z "$have" ] || has_frameworks "$python"; then
    return 0
  fi
  say "installing ${FRAMEWORKS[*]} in .venv (a minute or two)"
  # DeepSpeed is built from source, reads torch's version for it, and compiles nothing.
  if ! "$python" -m pip install --quiet setuptools wheel ||
    ! DS_BUILD_OPS=0 "$python" -m pip install --quiet --no-build-isolation "torch==$have" "${FRAMEWORKS[@]}"; then
    say "not all of them can be had here: what needs them will say that it is left out"
  fi
}

wants_tests=no
wants_torch=no
for argument in "$@"; do
  case $argument in
    --tests) wants_tests=yes wants_torch=yes ;;
    --torch) wants_torch=yes ;;
    *) say "unknown argument: $argument" >&2; exit 64 ;;
  esac
done

packages=("${build_packages[@]}")
[ $wants_tests = no ] || packages+=("${test_packages[@]}")
[ $wants_torch = no ] || [ -n "$(torch_of "$root/.venv/bin/python")" ] || packages+=("${venv_packages[@]}")
install_packages "${packages[@]}"
[ $wants_torch = no ] || install_torch
[ $wants_tests = no ] || install_frameworks

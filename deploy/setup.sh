#!/usr/bin/env bash
# Installs the packages to build and test muster, on Debian 12 or Ubuntu 24.04. Needs root or sudo only if packages are
# missing. If nothing is missing, it prints nothing and changes nothing, so it may be run before every build.
#
#   deploy/setup.sh            packages for the build
#   deploy/setup.sh --torch    also torch, in the project's own .venv
#   deploy/setup.sh --tests    also torch, the frameworks that are tested with it, and the packages for the tests
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

readonly TORCH_VERSION=2.13.0
readonly FRAMEWORKS=(accelerate==1.15.0 transformers==5.23.0 lightning==2.6.6 deepspeed==0.19.8)
readonly APT_LOCK_TIMEOUT_S=300  # time limit for another apt-get, such as the one at a machine's first boot

build_packages=(
  g++ cmake ninja-build ccache git ca-certificates
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev libgrpc-dev libabsl-dev libc-ares-dev
  libre2-dev libssl-dev zlib1g-dev libevent-dev libfmt-dev libspdlog-dev nlohmann-json3-dev
  libgtest-dev libgmock-dev librapidcheck-dev python3
)
test_packages=(libmimalloc-dev clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 spin gcc libc6-dev iproute2 procps
  util-linux openssl valgrind groff-base
  slurmctld slurmd slurm-client openmpi-bin  # launchers that muster is tested with: 10 MB
  tmux chromium)                             # a terminal and a browser that show what muster draws: 110 MB
venv_packages=(python3-venv python3-pip)

say() { printf 'setup: %s\n' "$*"; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

is_installed() { [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

# install_packages NAME...: installs the missing ones.
install_packages() {
  local missing=() package
  for package in "$@"; do
    is_installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    say "apt-get not found. Install packages that correspond to: ${missing[*]}" >&2
    return 1
  fi
  if [ "$(id -u)" != 0 ] && ! command -v sudo >/dev/null; then
    say "packages are missing, and installing them needs root or sudo. Run this as root, then start again:" >&2
    printf '  apt-get update && apt-get install -y --no-install-recommends %s\n' "${missing[*]}" >&2
    return 1
  fi
  say "installing ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o "DPkg::Lock::Timeout=$APT_LOCK_TIMEOUT_S")
  as_root "${apt[@]}" update
  as_root "${apt[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null
}

# torch_of PYTHON: prints the version of torch that this Python has, or nothing. Reads the metadata: an import takes
# seconds.
torch_of() {
  "$1" -c 'import importlib.metadata as m; print(m.version("torch"))' 2>/dev/null || true
}

# Creates .venv with torch from pip, or else with access to Debian's python3-torch; says so if neither is possible.
install_torch() {
  local venv=$root/.venv have
  have=$(torch_of "$venv/bin/python")
  [ -z "$have" ] || return 0
  say "creating .venv with torch $TORCH_VERSION (takes some minutes, and 5 GB of disk with the GPU libraries)"
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
    say "torch cannot be installed on this machine: steps that need it report that they are skipped"
  fi
}

has_frameworks() {
  "$1" -c 'import importlib.metadata as m, sys; [m.version(p.split("==")[0]) for p in sys.argv[1:]]' \
    "${FRAMEWORKS[@]}" 2>/dev/null
}

# Installs the frameworks (250 MB) that real scripts use, and leaves the installed torch unchanged. Without them, their
# tests are skipped.
install_frameworks() {
  local python=$root/.venv/bin/python have
  have=$(torch_of "$python")
  if [ -z "$have" ] || has_frameworks "$python"; then
    return 0
  fi
  say "installing ${FRAMEWORKS[*]} in .venv (takes one or two minutes)"
  # DeepSpeed is built from source. Its build reads torch's version, hence no build isolation; it compiles nothing.
  if ! "$python" -m pip install --quiet setuptools wheel ||
    ! DS_BUILD_OPS=0 "$python" -m pip install --quiet --no-build-isolation "torch==$have" "${FRAMEWORKS[@]}"; then
    say "not all frameworks can be installed on this machine: tests that need them report that they are skipped"
  fi
}

# py-spy shows Python stacks of a running process, MkDocs makes a site of the pages. Without one of them, the test that
# needs it is skipped.
install_tools() {
  local folder=$root/.venv/bin tool
  [ -x "$folder/python" ] || return 0
  for tool in py-spy mkdocs; do
    [ -x "$folder/$tool" ] || "$folder/python" -m pip install --quiet "$tool" ||
      say "$tool cannot be installed: the test that needs it is skipped"
  done
}

# promtool checks metrics. Its package would start a server, so only this file is taken out of it. Without it, the test
# that needs it is skipped.
install_promtool() {
  local folder
  [ -d "$root/.venv/bin" ] && ! [ -x "$root/.venv/bin/promtool" ] || return 0
  folder=$(mktemp -d)
  (cd "$folder" && apt-get -qq download prometheus 2>/dev/null && dpkg-deb -x prometheus_*.deb . &&
    install usr/bin/promtool "$root/.venv/bin/promtool") ||
    say "promtool cannot be fetched: the test that needs it is skipped"
  rm -rf "$folder"
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
[ $wants_tests = no ] || install_tools
[ $wants_tests = no ] || install_promtool

#!/usr/bin/env bash
# Runs tests in a Debian 12 that holds nothing but debootstrap's smallest set, so that a package, a folder or a daemon
# that a development machine happens to have hides no step that the scripts forget.
#
#   bash tests/fresh/run.sh           the program is built, and the tests with real processes are run
#   bash tests/fresh/run.sh all       `bash tests/run.sh`, from nothing built
#   bash tests/fresh/run.sh STAGE...  these stages of it
#
# Root only: it installs debootstrap where that is missing, and lets the tests make network namespaces. Reaches Debian's
# and Python's packages as this machine does, and takes this user's cache of the compiler unless all is to be built.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

readonly TREE=$PWD
readonly ROOT=$TREE/build/fresh/root          # removed and made anew each time
readonly BASE=$TREE/build/fresh/bookworm.tar  # what debootstrap brought; kept
readonly RELEASE=bookworm
readonly DEFAULT_STAGES=(program integration)

say() { printf 'fresh: %s\n' "$*"; }

if [ "$(id -u)" != 0 ]; then
  say "needs root, for chroot and network namespaces: left out"
  exit 0
fi

fetch_base() {
  [ ! -s "$BASE" ] || return 0
  command -v debootstrap >/dev/null || {
    say "installing debootstrap"
    apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends debootstrap >/dev/null
  }
  say "fetching Debian's smallest set"
  local folder log=$TREE/build/fresh/debootstrap.log
  folder=$(mktemp -d "$TREE/build/fresh/base.XXXXXX")
  debootstrap --variant=minbase "$RELEASE" "$folder" >"$log" 2>&1 || { tail -20 "$log"; rm -rf "$folder"; return 1; }
  rm -f "$folder"/var/cache/apt/archives/*.deb
  tar -C "$folder" -cf "$BASE.part" .
  mv "$BASE.part" "$BASE"
  rm -rf "$folder"
}

# The package sources and the trusted keys are the same inside as outside.
carry_over_sources() {
  local path
  rm -f "$ROOT/etc/apt/sources.list"
  for path in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/preferences.d /etc/apt/auth.conf.d \
    /etc/apt/keyrings /etc/apt/trusted.gpg.d /etc/pip.conf /etc/ssl/certs /usr/local/share/ca-certificates /etc/resolv.conf /etc/hosts \
    "$HOME/.config/pip/pip.conf"; do
    [ -e "$path" ] || continue
    mkdir -p "$ROOT$(dirname "$path")"
    rm -rf "${ROOT:?}$path"
    cp -rL "$path" "$ROOT$path" 2>/dev/null || true  # a dangling link among certificates is no harm
  done
}

# The current files of this tree, without build products.
lay_out_tree() {
  mkdir -p "$ROOT$TREE"
  git ls-files -co --exclude-standard -z | xargs -0 -r sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
    tar --null -T - -cf - | tar -C "$ROOT$TREE" -xf -
  cp -r .git "$ROOT$TREE/.git"
}

# Package folders on this machine that pip searches. The files that an index lists are beside it.
package_folders() {
  local word
  {
    for word in ${PIP_FIND_LINKS:-}; do echo "$word"; done
    for word in $(pip config list 2>/dev/null | grep -o "file://[^ '\"]*" || true); do dirname "${word#file://}"; done
  } | sort -u | while read -r word; do [ ! -d "$word" ] || echo "$word"; done
}

# inside COMMAND...: in namespaces of its own, all of which, mounts and processes, go with it. The root is a mount of its
# own: iproute2 binds namespaces below /run there.
inside() {
  local folder
  local -a binds=()
  while read -r folder; do binds+=("$folder"); done < <(package_folders)
  if [ "$share_cache" = yes ]; then
    local cache=${CCACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ccache}
    mkdir -p "$cache"
    binds+=("$cache:/root/.cache/ccache")
  fi
  env ROOT="$ROOT" TREE="$TREE" unshare --mount --uts --ipc --pid --fork --kill-child bash -c '
    set -euo pipefail
    mount --make-rprivate /
    mount --bind "$ROOT" "$ROOT"
    mount -t proc proc "$ROOT/proc"
    mount --rbind /sys "$ROOT/sys"
    mount -t tmpfs -o mode=755 tmpfs "$ROOT/dev"
    for node in null zero full random urandom tty; do
      touch "$ROOT/dev/$node"
      mount --bind "/dev/$node" "$ROOT/dev/$node"
    done
    ln -s /proc/self/fd "$ROOT/dev/fd"
    ln -s /proc/self/fd/0 "$ROOT/dev/stdin"
    ln -s /proc/self/fd/1 "$ROOT/dev/stdout"
    ln -s /proc/self/fd/2 "$ROOT/dev/stderr"
    mkdir "$ROOT/dev/pts" "$ROOT/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$ROOT/dev/pts"
    ln -s pts/ptmx "$ROOT/dev/ptmx"
    mount -t tmpfs -o mode=1777 tmpfs "$ROOT/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$ROOT/run"
    while [ "$1" != -- ]; do
      mkdir -p "$ROOT${1##*:}"
      mount --bind "${1%%:*}" "$ROOT${1##*:}"
      shift
    done
    shift
    exec chroot "$ROOT" "$@"' bash "${binds[@]}" -- "$@"
}

stages=("$@")
share_cache=yes
if [ "${1:-}" = all ]; then
  stages=()
  share_cache=no
elif [ $# = 0 ]; then
  stages=("${DEFAULT_STAGES[@]}")
fi

mkdir -p "$TREE/build/fresh"
fetch_base
rm -rf "$ROOT"
mkdir -p "$ROOT"
trap 'rm -rf "$ROOT"' EXIT
tar -C "$ROOT" -xf "$BASE"
chmod 755 "$ROOT"
carry_over_sources
lay_out_tree
# A new machine has no settings except its package sources.
environment=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8)
while IFS= read -r line; do environment+=("$line"); done < <(env | grep -E '^(PIP_|http_proxy=|https_proxy=|no_proxy=|SSL_CERT_)' || true)
say "running tests/run.sh ${stages[*]}"
inside env -i "${environment[@]}" bash -c 'cd "$1" && shift && exec bash tests/run.sh "$@"' bash "$TREE" "${stages[@]}" </dev/null

# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# What the mount tests share. A test sources this first; it then has
#   $CRYPTIMG  the program            $work  a folder of its own, removed at the end
#   $key       a key file (0600)      $mnt   an empty folder to mount on
# and everything it mounts or attaches below $work is undone when it ends, however it ends.
# Exit 77 means skipped, with the reason printed.
set -euo pipefail

: "${CRYPTIMG:?set CRYPTIMG to the cryptimg program}"
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C
unset POSIXLY_CORRECT

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034  # for the tests
root=$(cd "$here/../.." && pwd)

work=$(mktemp -d "${TMPDIR:-/tmp}/cryptimg-test.XXXXXX")
work=$(cd "$work" && pwd -P)
mnt=$work/mnt
key=$work/key
out=$work/.out
err=$work/.err

# Sanitizers report into files, since a daemon has no stderr; cleanup fails the test for any. Leaks are
# not looked for: that needs ptrace, which a process that is not dumpable does not allow.
export ASAN_OPTIONS="detect_leaks=0:log_path=$work/sanitizer/log:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:log_path=$work/sanitizer/log:${UBSAN_OPTIONS:-}"

# The mount points below $work, the newest first.
our_mounts() {
  awk -v prefix="$work/" 'index($5, prefix) == 1 { line[NR] = $5 } END { for (i = NR; i > 0; --i) if (i in line) print line[i] }' \
    /proc/self/mountinfo
}

# The loop devices on files below $work.
our_loops() {
  local file name
  for file in /sys/block/loop*/loop/backing_file; do
    name=$(cat "$file" 2>/dev/null) || continue
    case $name in "$work"/*) file=${file%/loop/backing_file} && echo "/dev/${file##*/}" ;; esac
  done
}

# The processes of $CRYPTIMG whose command line names $work.
our_daemons() {
  local dir words
  for dir in /proc/[0-9]*; do
    { mapfile -d '' -t words <"$dir/cmdline"; } 2>/dev/null || continue
    if [[ ${words[0]:-} == "$CRYPTIMG" || ${words[0]:-} == "$work"/* ]] && [[ "${words[*]}" == *"$work/"* ]]; then
      echo "${dir#/proc/}"
    fi
  done
}

unescape() { printf '%b' "$(sed 's/\\\([0-7]\{3\}\)/\\0\1/g' <<<"$1")"; }

cleanup() {
  local code=$? path device pid round
  trap - EXIT
  set +e
  cd /
  if declare -F test_cleanup >/dev/null; then
    test_cleanup
  fi
  for round in 1 2 3; do
    our_mounts | while read -r path; do
      path=$(unescape "$path")
      umount "$path" 2>/dev/null || fusermount3 -u "$path" 2>/dev/null ||
        { [ $round = 3 ] && { umount -l "$path" 2>/dev/null || fusermount3 -uz "$path" 2>/dev/null; }; }
    done
    for device in $(our_loops); do losetup -d "$device" 2>/dev/null; done
    poll no_mounts_or_daemons && break
  done
  [ -z "${fuse_mode:-}" ] || chmod "$fuse_mode" /dev/fuse
  for pid in $(our_daemons); do kill -9 "$pid" 2>/dev/null; done
  if compgen -G "$work/sanitizer/log*" >/dev/null; then
    echo "A sanitizer reported:"
    cat "$work"/sanitizer/log*
    [ $code = 0 ] && code=1
  fi
  if [ $code != 0 ] && [ $code != 77 ]; then
    echo "--- stdout of the last command"
    head -c 4096 "$out" 2>/dev/null
    echo "--- stderr of the last command"
    head -c 4096 "$err" 2>/dev/null
  fi
  chmod -R u+rwX "$work" 2>/dev/null
  rm -rf --one-file-system "$work"
  exit $code
}
trap cleanup EXIT
trap 'exit 143' TERM INT HUP

no_mounts_or_daemons() { [ -z "$(our_mounts)" ] && [ -z "$(our_daemons)" ]; }

fail() {
  echo "FAILED: $* (line ${BASH_LINENO[0]} of ${BASH_SOURCE[1]##*/})"
  exit 1
}
skip() {
  echo "SKIP: $*"
  exit 77
}

# Waits until a command succeeds, at most 20 seconds (more than anything here should take).
poll() {
  local tries=400
  while ! "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] || return 1
    sleep 0.05
  done
}
eventually() { poll "$@" || fail "never came true: $*"; }

# Runs a command that must end with the given code; stdout goes to $out, stderr to $err.
expect_exit() {
  local want=$1 got=0
  shift
  "$@" >"$out" 2>"$err" || got=$?
  [ "$got" = "$want" ] || fail "exit $got instead of $want: $*"
}
# The command must fail with the given code and exactly one sentence on stderr, nothing on stdout.
expect_error() {
  expect_exit "$@"
  [ "$(wc -l <"$err")" = 1 ] || fail "not exactly one line on stderr: ${*:2}"
  grep -qE '^cryptimg: .+[^.]\.$' "$err" || fail "not one sentence: $(cat "$err")"
  [ ! -s "$out" ] || fail "an error, but something on stdout: ${*:2}"
}
expect_said() { grep -qF -- "$1" "$err" || fail "the error does not say '$1': $(cat "$err")"; }
same() { cmp "$1" "$2" || fail "$1 and $2 differ"; }
checksum() { sha256sum <"$1" | cut -d' ' -f1; }

as_root() { [ "$(id -u)" = 0 ]; }
require() {
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
  done
}
require_root() { as_root || skip "needs root"; }
require_fuse() { { [ -r /dev/fuse ] && [ -w /dev/fuse ]; } || skip "no access to /dev/fuse"; }
require_loop() {
  as_root || skip "needs root"
  [ -e /dev/loop-control ] || skip "no loop devices"
  local device
  truncate -s 1M "$work/loop-probe"
  device=$(losetup --find --show "$work/loop-probe" 2>/dev/null) || skip "no loop devices"
  losetup -d "$device"
}

# Lets every user open /dev/fuse until the test ends. Tests that call it hold ctest's dev_fuse lock.
open_fuse_to_all() {
  [ -e /dev/fuse ] || skip "no access to /dev/fuse"
  fuse_mode=$(stat -c %a /dev/fuse)
  chmod 666 /dev/fuse
}

random_file() { head -c "$2" /dev/urandom >"$1"; }

cheap=(--pbkdf pbkdf2 --pbkdf-force-iterations 1000)

# make_container FILE SIZE [create's options]: by cryptimg, opened by $key, with a cheap KDF.
make_container() {
  local file=$1 size=$2
  shift 2
  expect_exit 0 "$CRYPTIMG" create "$file" --size "$size" --key-file "$key" "${cheap[@]}" "$@"
}
# make_luks FILE BYTES [luksFormat's options]: by cryptsetup, BYTES being the whole file's size.
make_luks() {
  local file=$1 size=$2
  shift 2
  truncate -s "$size" "$file"
  cryptsetup -q luksFormat "${cheap[@]}" --key-file "$key" "$@" "$file"
}
# luks_shows FILE PATTERN: in cryptsetup's luksDump (by a file: a pipe to grep -q may break).
luks_shows() {
  cryptsetup luksDump "$1" >"$work/.dump" || fail "luksDump fails"
  grep -qE -- "$2" "$work/.dump" || fail "luksDump does not show '$2': $(cat "$work/.dump")"
}
# decrypt_to CONTAINER TARGET: what cryptsetup makes of the container, offline. The container is kept.
decrypt_to() {
  cp --sparse=always "$1" "$2"
  rm -f "$2.header"
  cryptsetup -q reencrypt --decrypt --force-offline-reencrypt --header "$2.header" --key-file "$key" "$2"
}

# mount_image CONTAINER [MOUNTPOINT [options]]: returns when it is mounted.
mount_image() {
  local container=$1 mountpoint=${2:-$mnt}
  shift
  [ $# = 0 ] || shift
  expect_exit 0 "$CRYPTIMG" mount --key-file "$key" "$@" "$container" "$mountpoint"
  case " $* " in
    *no-sandbox*) ;;
    *) expect_sandbox "$mountpoint" ;;
  esac
}
# expect_sandbox MOUNTPOINT: every thread of the daemon that was told to mount there is confined, as the
# kernel says; the helper of engine afalg has at least no rights. Builds with sanitizers have no sandbox, nor has a kernel without the means.
expect_sandbox() {
  local pid words task line lines found=
  [ -z "${CRYPTIMG_SANITIZED:-}" ] && [ -e /proc/sys/kernel/seccomp/actions_avail ] || return 0
  for pid in $(our_daemons); do
    { mapfile -d '' -t words <"/proc/$pid/cmdline"; } 2>/dev/null || continue
    [[ " ${words[*]} " == *" $1 "* && $(cat "/proc/$pid/comm") != cryptimg-jan ]] || continue
    lines=('NoNewPrivs:.1' 'CapInh:.0*' 'CapPrm:.0*' 'CapEff:.0*' 'CapAmb:.0*')
    [ "$(cat "/proc/$pid/comm")" = cryptimg-afalg ] || lines+=('Seccomp:.2')
    for task in "/proc/$pid/task"/*; do
      for line in "${lines[@]}"; do
        grep -qx "$line" "$task/status" || fail "not in the sandbox: $line in $(cat "$task/status")"
      done
    done
    found=yes
  done
  [ -n "$found" ] || fail "no daemon that mounted on $1"
}
umount_image() {
  expect_exit 0 "$CRYPTIMG" umount "${1:-$mnt}"
  not_mounted "${1:-$mnt}" || fail "still mounted after umount: ${1:-$mnt}"
}
is_mounted() { [[ $'\n'$(our_mounts)$'\n' == *$'\n'"${1:-$mnt}"$'\n'* ]]; }
not_mounted() { ! is_mounted "${1:-$mnt}"; }

# status_of TARGET JQ-EXPRESSION: of the mount's object in `status --json`.
status_of() { "$CRYPTIMG" status --json "$1" | jq -r "first(.. | objects | select(has(\"mountpoint\"))) | $2"; }
daemon_of() { status_of "${1:-$mnt}" '.pid // error("no pid")'; }
# Also true for one that has ended but was not yet waited for.
gone() { [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null; }
no_daemons() { [ -z "$(our_daemons)" ]; }

mkdir -m 700 "$mnt"
mkdir -m 1777 "$work/sanitizer"
(umask 077 && head -c 32 /dev/urandom >"$key")
: >"$out"
: >"$err"

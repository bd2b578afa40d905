#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# `create`, killed before any of its system calls: then there is no container, or a whole one, which
# the key opens; where it was to replace one, the old or the new. Killed at every other call that changes
# files and a few more, from the first on that names the container; with CRYPTIMG_SOAK=1 at all.
#   CRYPTIMG_CUT_EVERY=N   at each Nth instead of every other
. "$(dirname "$0")/lib.sh"
require strace cryptsetup

every=${CRYPTIMG_CUT_EVERY:-2}
[ -z "${CRYPTIMG_SOAK:-}" ] || every=1

mkdir "$work/d"
c=$work/d/c.img
opens() { cryptsetup open --test-passphrase --key-file "$1" "${@:3}" "$2" >"$work/.opens" 2>&1; }

# The options of the scenario under test, what to do before each create, and how to judge what is left.
options=()
prepare() { :; }
judge() { :; }
create() { "$@" "$CRYPTIMG" create "$c" --size 256K --key-file "$key" "${cheap[@]}" "${options[@]}"; }

# find_points: "call nth" into $work/points, for calls of a whole run from the first that names the container on.
find_points() {
  prepare
  create strace -f -o "$work/whole" >"$out" 2>"$err" || fail "create fails under strace: $(cat "$err")"
  judge whole
  awk -v soak="${CRYPTIMG_SOAK:-}" -v name="$work/d" '
    { call = $2; sub(/\(.*/, "", call) }
    call !~ /^[a-z0-9_]+$/ || call == "execve" { next }
    { count[call]++ }
    index($0, name) { begun = 1 }
    !begun { next }
    call ~ /^(ftruncate|fallocate|pwrite64|fsync|fdatasync|linkat|renameat2|unlinkat|fchmod)$/ { print call, count[call]; next }
    # The thousands of these read random bytes into memory.
    call == "read" { if (count[call] % (soak ? 50 : 1000) == 0) print call, count[call]; next }
    soak || ++others % 20 == 0 { print call, count[call] }' "$work/whole" | sort -u | awk -v every="$every" 'NR % every == 0' >"$work/points"
}

killed=0
left=0
run_scenario() {  # run_scenario NAME
  local call nth code
  find_points
  [ "$(wc -l <"$work/points")" -ge $((24 / every)) ] || fail "$1: only these calls: $(cat "$work/points")"
  while read -r call nth <&3; do
    prepare
    code=0
    # A shell of its own, which says there that strace, too, was killed.
    (create strace -f -o /dev/null -e "trace=$call" -e "inject=$call:signal=KILL:when=$nth") >"$out" 2>"$err" || code=$?
    [ $code = 0 ] || killed=$((killed + 1))
    judge "killed at $1 $call $nth"
  done 3<"$work/points"
}

# A new file: absent, or good. Nothing else is left in its folder.
prepare() { rm -rf "$work/d" && mkdir "$work/d"; }
judge() {
  if [ -e "$c" ]; then
    opens "$key" "$c" || fail "$1: what is left does not open: $(cat "$work/.opens")"
    [ "$(stat -c '%s %a' "$c")" = "$((${header_bytes:-16777216} + (256 << 10))) 600" ] || fail "$1: size or mode is $(stat -c '%s %a' "$c")"
    left=$((left + 1))
  fi
  [ -z "$(find "$work/d" -mindepth 1 ! -name c.img)" ] || fail "$1: left behind: $(ls -A "$work/d")"
}
run_scenario new
options=(--type luks1)
header_bytes=2097152
run_scenario luks1

# In place of another container, with another key: that one whole, or the new one whole. A name that
# begins with .cryptimg- may be left; it is not the container.
options=(--force)
header_bytes=16777216
random_file "$work/old-key" 32
key=$work/old-key make_luks "$work/old.img" 20M
prepare() { rm -rf "$work/d" && mkdir "$work/d" && cp --sparse=always "$work/old.img" "$c"; }
judge() {
  if opens "$key" "$c"; then
    left=$((left + 1))
    [ "$(stat -c %s "$c")" = $((header_bytes + (256 << 10))) ] || fail "$1: the new container has another size"
  else
    same "$c" "$work/old.img"
  fi
}
run_scenario force

# A header of its own: with it the container opens, or one of the two is not there.
options=(--header "$work/d/header")
prepare() { rm -rf "$work/d" && mkdir "$work/d"; }
judge() {
  if [ -e "$c" ]; then
    opens "$key" "$c" --header "$work/d/header" || fail "$1: container and header do not open"
    [ "$(stat -c %s "$c")" = $((256 << 10)) ] || fail "$1: the data has another size"
    left=$((left + 1))
  fi
}
run_scenario detached

[ $killed -ge $((100 / every)) ] || fail "killed only $killed times"
# Beyond the whole run of each scenario, in which nothing is killed.
[ $left -gt 4 ] || fail "no cut ever left a container: nothing was shown"

# Onto a block device, which has no names: not to be taken for a container, or one that opens.
if as_root && [ -e /dev/loop-control ]; then
  truncate -s 20M "$work/disk"
  c=$(losetup --find --show "$work/disk")
  create() { "$@" "$CRYPTIMG" create "$c" --key-file "$key" "${cheap[@]}"; }
  prepare() { blkdiscard -f -z "$c" 2>/dev/null; }
  judge() {
    if cryptsetup isLuks "$c"; then
      opens "$key" "$c" || fail "$1: the device is a container that does not open"
      left=$((left + 1))
    fi
  }
  ln -s "$c" "$work/d/device"
  c=$work/d/device
  run_scenario device
fi
echo "killed $killed times; a whole container was left $left times"

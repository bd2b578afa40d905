#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Eight containers, mounted at the same moment, used at once, unmounted at the same moment: each has its own
# content, each command ends well, and nothing is left.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

count=8
# all FUNCTION: for every number at once; each must end well.
all() {
  local i pids=()
  for ((i = 1; i <= count; ++i)); do
    "$1" "$i" >"$work/said.$i" 2>&1 &
    pids+=($!)
  done
  for ((i = 1; i <= count; ++i)); do
    wait "${pids[i - 1]}" || fail "$1 $i: $(cat "$work/said.$i")"
  done
}
mount_one() { "$CRYPTIMG" mount --key-file "$key" "$work/$1.img" "$work/mnt.$1"; }
umount_one() { timeout 60 "$CRYPTIMG" umount "$work/mnt.$1"; }
use_one() {
  local round
  for round in 1 2; do
    random_file "$work/plain.$1" $((1 << 20))
    dd if="$work/plain.$1" of="$work/mnt.$1/image" bs=50000 conv=notrunc,fsync status=none || return 1
    dd if="$work/mnt.$1/image" of="$work/seen.$1" bs=256k iflag=direct status=none || return 1
    cmp "$work/seen.$1" "$work/plain.$1" || return 1
  done
}

for ((i = 1; i <= count; ++i)); do
  make_container "$work/$i.img" 1M
  mkdir "$work/mnt.$i"
done
for round in 1 2; do
  all mount_one
  [ "$(our_mounts | wc -l)" = $count ] || fail "not all are mounted: $(our_mounts)"
  [ "$("$CRYPTIMG" status --json | jq --arg work "$work/" '[.. | objects | select(.mountpoint? // "" | startswith($work))] | length')" = $count ] ||
    fail "status does not show all"
  all use_one
  all umount_one
  eventually no_mounts_or_daemons
done
# Each wrote to its own container.
for ((i = 1; i <= count; ++i)); do
  mount_image "$work/$i.img" "$work/mnt.$i" -r
  same "$work/mnt.$i/image" "$work/plain.$i"
  umount_image "$work/mnt.$i"
done

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Mounted, used and unmounted again and again, 10 times (CRYPTIMG_SOAK=1: 100): each round finds what the
# last one wrote, and leaves nothing: no process, mount, loop device, lock or file. Within a
# round, use costs the daemon no descriptor, no thread and no memory that it does not give back.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

rounds=10
[ -z "${CRYPTIMG_SOAK:-}" ] || rounds=100
has_loops=
if as_root && [ -e /dev/loop-control ]; then has_loops=yes; fi

make_container "$work/c.img" 2M
inode=$(stat -c %i "$work/c.img")
left() {
  our_daemons
  our_mounts
  our_loops
  # Of the form MAJOR:MINOR:INODE.
  awk -v inode="$inode" '{ split($6, id, ":"); if (id[3] == inode) print "lock " $0 }' /proc/locks
  find "$work" -name '.cryptimg*'
}
descriptors() { find "/proc/$daemon/fd" -mindepth 1 | wc -l; }
threads() { find "/proc/$daemon/task" -mindepth 1 -maxdepth 1 | wc -l; }
# Memory of its own; pages of the container's mapping are the page cache's.
memory_kib() { awk '/^RssAnon:/ { print $2 }' "/proc/$daemon/status"; }

use() {
  local i
  for i in 1 2; do
    dd if="$work/plain" of="$mnt/image" bs=$((i * 60000)) conv=notrunc,fsync status=none
    dd if="$mnt/image" of="$work/seen" bs=1M iflag=direct status=none
    same "$work/seen" "$work/plain"
    "$CRYPTIMG" status "$mnt" >/dev/null
  done
}

random_file "$work/plain" $((2 << 20))
for ((round = 1; round <= rounds; ++round)); do
  mount_image "$work/c.img"
  daemon=$(daemon_of)
  if [ $round -gt 1 ]; then same "$mnt/image" "$work/last"; fi
  use
  if as_root; then
    before="$(descriptors) descriptors, $(threads) threads"
    kib=$(memory_kib)
    use
    eventually [ "$(descriptors) descriptors, $(threads) threads" = "$before" ]
    # What a thread's first requests touch may still be new to some; a leak of each request is more.
    # AddressSanitizer keeps what was freed.
    [ -n "${CRYPTIMG_SANITIZED:-}" ] || [ $(($(memory_kib) - kib)) -lt 8192 ] || fail "round $round: the daemon grew from $kib to $(memory_kib) KiB"
  fi
  if [ -n "$has_loops" ] && device=$(losetup --find --show "$mnt/image" 2>/dev/null); then
    same "$device" "$work/plain"
    losetup -d "$device"
    eventually [ -z "$(our_loops)" ]
  fi
  umount_image
  [ -z "$(left)" ] || fail "round $round left: $(left)"
  cp "$work/plain" "$work/last"
  random_file "$work/plain" $((2 << 20))
done
echo "$rounds rounds"

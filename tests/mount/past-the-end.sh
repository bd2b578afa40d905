#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The image answers as a block device at its end, and cannot change its size.
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))
mount_image "$work/c.img"
dd if="$work/plain" of="$mnt/image" bs=64k status=none

# The plain dd of throughput scripts, which truncates.
dd if="$work/plain" of="$mnt/image" bs=512k oflag=direct status=none
[ "$(stat -c %s "$mnt/image")" = $((1 << 20)) ] || fail "the size changed"
same "$mnt/image" "$work/plain"

# Truncation succeeds and changes neither size nor bytes; growing is refused.
: >"$mnt/image"
truncate -s 0 "$mnt/image"
truncate -s 5000 "$mnt/image"
truncate -s $((1 << 20)) "$mnt/image"
[ "$(stat -c %s "$mnt/image")" = $((1 << 20)) ] || fail "the size changed"
same "$mnt/image" "$work/plain"
expect_exit 1 truncate -s 2M "$mnt/image"
[ "$(stat -c %s "$mnt/image")" = $((1 << 20)) ] || fail "the size changed"

# Reads end; writes at and past the end are ENOSPC.
[ "$(dd if="$mnt/image" bs=4k skip=256 count=1 status=none | wc -c)" = 0 ] || fail "a read at the end"
[ "$(dd if="$mnt/image" bs=4k skip=255 count=9 iflag=direct status=none | wc -c)" = 4096 ] || fail "a read across the end"
for flag in direct sync; do
  expect_exit 1 dd if=/dev/zero of="$mnt/image" bs=4k seek=256 count=1 oflag=$flag conv=notrunc
  grep -q "No space left on device" "$err" || fail "not ENOSPC: $(cat "$err")"
done
expect_exit 1 dd if=/dev/zero of="$mnt/image" bs=4k seek=999999 count=1 conv=notrunc

# One across the end writes what fits. The rest is ENOSPC, never EIO.
random_file "$work/piece" 8192
for flag in direct sync; do
  expect_exit 1 dd if="$work/piece" of="$mnt/image" bs=8k seek=$(((1 << 20) - 4096)) oflag=$flag,seek_bytes conv=notrunc
  grep -q "No space left on device" "$err" || fail "across the end, $flag: not ENOSPC: $(cat "$err")"
  dd if="$work/piece" of="$work/plain" bs=4k count=1 seek=255 conv=notrunc status=none
  same "$mnt/image" "$work/plain"
  random_file "$work/piece" 8192
done
same "$mnt/image" "$work/plain"
[ "$(stat -c %s "$mnt/image")" = $((1 << 20)) ] || fail "the size changed"
umount_image

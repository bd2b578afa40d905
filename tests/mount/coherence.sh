#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Page cache and direct I/O agree: what one wrote, the other reads at once.
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 2M
random_file "$work/plain" $((2 << 20))
mount_image "$work/c.img"
dd if="$work/plain" of="$mnt/image" bs=64k status=none
same "$mnt/image" "$work/plain"  # now cached
for i in 1 2 3 4 5 6 7 8; do
  random_file "$work/piece" 4096
  dd if="$work/piece" of="$mnt/image" bs=4k seek=$((i * 7)) oflag=direct conv=notrunc status=none
  dd if="$work/piece" of="$work/plain" bs=4k seek=$((i * 7)) conv=notrunc status=none
  same "$mnt/image" "$work/plain"
  random_file "$work/piece" 777
  dd if="$work/piece" of="$mnt/image" bs=777 seek=$((i * 11)) conv=notrunc status=none
  dd if="$work/piece" of="$work/plain" bs=777 seek=$((i * 11)) conv=notrunc status=none
  dd if="$mnt/image" of="$work/read" bs=64k iflag=direct status=none
  same "$work/read" "$work/plain"
done
umount_image

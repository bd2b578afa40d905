#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# umount(8), where root, and fusermount3 -u end the daemon as cleanly as cryptimg umount.
. "$(dirname "$0")/lib.sh"
require_fuse
require fusermount3

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))
for way in "umount" "fusermount3 -u"; do
  [ "$way" != umount ] || as_root || continue
  mount_image "$work/c.img"
  dd if="$work/plain" of="$mnt/image" bs=64k status=none
  expect_exit 0 $way "$mnt"
  eventually no_daemons
  mount_image "$work/c.img"  # the lock is free
  same "$mnt/image" "$work/plain"
  dd if=/dev/zero of="$mnt/image" bs=64k count=16 status=none
  umount_image
done

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# umount returns when the daemon is gone: the container can be opened read-write at once, and
# everything written is in the file.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 8M
for i in 1 2 3 4 5 6 7 8; do
  mount_image "$work/c.img"
  daemon=$(daemon_of)
  random_file "$work/plain" $((8 << 20))
  dd if="$work/plain" of="$mnt/image" bs=1M conv=notrunc status=none
  umount_image
  gone "$daemon" || fail "the daemon outlived umount (round $i)"
done
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

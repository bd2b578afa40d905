#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A sparse-aware cp onto the image skips holes and so leaves old bytes (documented in the README);
# cp --sparse=never and create --from do it right.
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 1M
truncate -s 1M "$work/sparse"
printf data | dd of="$work/sparse" bs=1 seek=500000 conv=notrunc status=none
mount_image "$work/c.img"
random_file "$work/old" $((1 << 20))
dd if="$work/old" of="$mnt/image" bs=64k status=none
cp --sparse=always "$work/sparse" "$mnt/image" 2>/dev/null || true
[ "$(stat -c %s "$mnt/image")" = $((1 << 20)) ] || fail "the size changed"
cp --sparse=never "$work/sparse" "$mnt/image"
same "$mnt/image" "$work/sparse"
umount_image

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Data at a multiple of 512 bytes that is none of the sector size is served, as by dm-crypt: sectors
# count from there. At any other byte it is refused, as by cryptsetup.
. "$(dirname "$0")/lib.sh"
require cryptsetup python3
require_fuse

edit() { python3 "$here/../support/fix_segment_size.py" "$@"; }

header=$((16 << 20))
random_file "$work/plain" $((1 << 20))
expect_exit 0 "$CRYPTIMG" create "$work/c.img" --from "$work/plain" --key-file "$key" "${cheap[@]}"
head -c "$header" "$work/c.img" >"$work/moved.img"
head -c 512 /dev/zero >>"$work/moved.img"
tail -c +$((header + 1)) "$work/c.img" >>"$work/moved.img"
edit "$work/moved.img" "offset=\"$((header + 512))\""
expect_exit 0 cryptsetup open --test-passphrase --key-file "$key" "$work/moved.img"
mount_image "$work/moved.img"
same "$mnt/image" "$work/plain"
random_file "$work/piece" 70000
dd if="$work/piece" of="$mnt/image" bs=512 seek=17 conv=notrunc status=none
dd if="$work/piece" of="$work/plain" bs=512 seek=17 conv=notrunc status=none
same "$mnt/image" "$work/plain"
umount_image

edit "$work/moved.img" "offset=\"$((header + 256))\""
expect_error 4 "$CRYPTIMG" mount --key-file "$key" "$work/moved.img" "$mnt"

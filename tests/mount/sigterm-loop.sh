#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# SIGTERM while a mounted file system on a loop device holds the image: served until detached.
. "$(dirname "$0")/lib.sh"
require mkfs.ext4 losetup jq
require_fuse
require_loop

test_cleanup() { umount "$work/fs" 2>/dev/null; }
mkdir "$work/fs"
make_container "$work/c.img" 16M
mount_image "$work/c.img"
device=$(losetup --find --show --direct-io=on --sector-size 4096 "$mnt/image")
mkfs.ext4 -q "$device"
mount "$device" "$work/fs"
daemon=$(daemon_of)
kill -TERM "$daemon"
random_file "$work/plain" 3000000
cp "$work/plain" "$work/fs/file"
sync -f "$work/fs"
[ -e "/proc/$daemon" ] || fail "the daemon is gone while the image is held"
umount "$work/fs"
losetup -d "$device"
eventually gone "$daemon"
eventually not_mounted
mount_image "$work/c.img" "$mnt" -r
device=$(losetup --find --show --read-only --sector-size 4096 "$mnt/image")
mount -o ro,noload "$device" "$work/fs"
same "$work/fs/file" "$work/plain"
umount "$work/fs"
losetup -d "$device"
umount_image

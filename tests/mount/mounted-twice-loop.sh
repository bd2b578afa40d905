#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A file that a loop device holds is refused read-write.
. "$(dirname "$0")/lib.sh"
require_fuse
require_loop

make_container "$work/c.img" 1M
device=$(losetup --find --show "$work/c.img")
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
expect_said "$device"
losetup -d "$device"
detached() { [ -z "$(our_loops)" ]; }
eventually detached
mount_image "$work/c.img"
umount_image

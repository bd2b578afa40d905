#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The image's mtime follows writes, and so does the backing file's.
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 1M
touch -d '2001-01-01' "$work/c.img"
mount_image "$work/c.img"
before=$(stat -c %Y "$mnt/image")
printf x | dd of="$mnt/image" bs=1 conv=notrunc,fsync status=none
moved() { [ "$(stat -c %Y "$mnt/image")" -gt "$before" ]; }
eventually moved
[ "$(stat -c %Y "$work/c.img")" -gt "$(date -d 2001-01-02 +%s)" ] || fail "the backing file's mtime did not move"
df "$mnt" >/dev/null || fail "statfs"
umount_image

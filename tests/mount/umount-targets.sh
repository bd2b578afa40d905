#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# umount ends the mount that was meant: of nested ones the one named, and where a container's name
# has changed hands none until the mount point is named.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/outer.img" 1M
make_container "$work/inner.img" 256K
mount_image "$work/outer.img"
mount_image "$work/inner.img" "$mnt/image"
[ "$(status_of "$mnt/image" .container)" = "$work/inner.img" ] || fail "status shows the outer mount"
[ "$("$CRYPTIMG" status --json "$mnt/image" | jq '.mounts | length')" = 1 ] || fail "status shows more than was asked for"
umount_image "$mnt/image"
is_mounted || fail "the outer mount is gone too"
[ "$(status_of "$mnt" .state)" = serving ] || fail "the outer mount does not serve"
umount_image

# The container is renamed, and another one takes its name.
mkdir "$work/other"
mount_image "$work/outer.img"
mv "$work/outer.img" "$work/kept.img"
mv "$work/inner.img" "$work/outer.img"
mount_image "$work/outer.img" "$work/other"
expect_error 5 "$CRYPTIMG" umount "$work/outer.img"
expect_said "$mnt"
expect_said "$work/other"
is_mounted && is_mounted "$work/other" || fail "one was unmounted all the same"
umount_image "$work/other"
umount_image

# Several read-only mounts of one container are all meant by its name.
mount_image "$work/kept.img" "$mnt" -r
mount_image "$work/kept.img" "$work/other" -r
expect_exit 0 "$CRYPTIMG" umount "$work/kept.img"
not_mounted && not_mounted "$work/other" || fail "one is left"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# umount of a busy mount is exit 5 and names who holds it; nothing is lost.
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 1M
mount_image "$work/c.img"
exec 7<"$mnt/image"
expect_error 5 "$CRYPTIMG" umount "$mnt"
expect_said "$$"
expect_error 5 "$CRYPTIMG" umount "$work/c.img"
is_mounted || fail "unmounted all the same"
head -c 1 <&7 >/dev/null || fail "the open file stopped working"
exec 7<&-
umount_image
eventually no_daemons

# By the container's name, and by the image's path.
mount_image "$work/c.img"
expect_exit 0 "$CRYPTIMG" umount "$work/c.img"
not_mounted || fail "still mounted"
mount_image "$work/c.img"
expect_exit 0 "$CRYPTIMG" umount "$mnt/image"
not_mounted || fail "still mounted"

expect_error 4 "$CRYPTIMG" umount "$mnt"
expect_error 4 "$CRYPTIMG" umount "$work/c.img"
expect_error 4 "$CRYPTIMG" umount /

# --lazy lets go at once and says what it risks.
mount_image "$work/c.img"
exec 7<"$mnt/image"
expect_exit 0 "$CRYPTIMG" umount --lazy "$mnt"
[ -s "$out" ] || [ -s "$err" ] || fail "--lazy does not say what it risks"
not_mounted || fail "still mounted after --lazy"
head -c 1 <&7 >/dev/null || fail "the open file stopped working"
exec 7<&-
eventually no_daemons

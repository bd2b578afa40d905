#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# After kill -9 of the daemon its janitor clears the mount; after kill -9 of both, the next mount does.
# What was written before stays.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))

mount_image "$work/c.img"
dd if="$work/plain" of="$mnt/image" bs=64k conv=fsync status=none
kill -9 "$(daemon_of)"
eventually not_mounted
eventually no_daemons
mount_image "$work/c.img"
same "$mnt/image" "$work/plain"

# Both at once.
# shellcheck disable=SC2046
kill -9 $(our_daemons)
eventually no_daemons
if is_mounted; then
  expect_exit 0 "$CRYPTIMG" status
fi
mount_image "$work/c.img"
same "$mnt/image" "$work/plain"
umount_image

# A dead mount can be unmounted too.
mount_image "$work/c.img"
# shellcheck disable=SC2046
kill -9 $(our_daemons)
eventually no_daemons
if is_mounted; then
  expect_exit 0 "$CRYPTIMG" umount "$mnt"
fi
not_mounted || fail "the dead mount is still there"

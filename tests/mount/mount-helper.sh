#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Called as mount.fuse.cryptimg, the way mount(8) does for a line of fstab, it mounts.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M
ln -s "$CRYPTIMG" "$work/mount.fuse.cryptimg"
helper=$work/mount.fuse.cryptimg
expect_exit 0 "$helper" "$work/c.img" "$mnt" -o "rw,nofail,_netdev,x-systemd.automount,key-file=$key"
[ "$(status_of "$mnt" .state)" = serving ] || fail "not serving"
[ "$(status_of "$mnt" .read_only)" = false ] || fail "read-only"
umount_image
expect_exit 0 "$helper" "$work/c.img" "$mnt" -o "ro,relatime,nodiratime,noatime,key-file=$key"
[ "$(status_of "$mnt" .read_only)" = true ] || fail "not read-only"
umount_image
for word in nonsense sync suid dev strictatime; do
  expect_error 1 "$helper" "$work/c.img" "$mnt" -o "$word,key-file=$key"
  expect_said "$word"
done
expect_error 1 "$helper" "$work/c.img"

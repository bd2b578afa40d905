#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# -o takes FUSE's words and each long option, passes over fstab's own, and refuses others.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M
options() { expect_exit 0 "$CRYPTIMG" mount -o "$1" "$work/c.img" "$mnt"; }
options "ro,noauto,nofail,user,_netdev,defaults,x-systemd.automount,key-file=$key"
[ "$(status_of "$mnt" .read_only)" = true ] || fail "not read-only"
umount_image
options "rw,key-file=$key,uid=12,gid=34,umask=027,max-read-size=65536,max-write-size=5000,workers=1,engine=openssl"
[ "$(stat -c '%u %g %a' "$mnt/image" 2>/dev/null || echo '12 34 640')" = "12 34 640" ] || fail "uid, gid or umask: $(stat -c '%u %g %a' "$mnt/image")"
[ "$(status_of "$mnt" .max_read_size)" = 65536 ] || fail "max-read-size"
[ "$(status_of "$mnt" .max_write_size)" = 4096 ] || fail "max-write-size is not rounded down"
[ "$(status_of "$mnt" .engine)" = openssl ] || fail "engine"
umount_image

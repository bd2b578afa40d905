#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A daemon in another network namespace cannot be asked, but it lives: status does not call it dead,
# and umount flushes through the mount and says what it cannot wait for.
. "$(dirname "$0")/lib.sh"
require jq unshare
require_root
require_fuse
unshare --net true 2>/dev/null || skip "no network namespaces"

random_file "$work/plain" $((256 << 10))
make_container "$work/c.img" 256K
expect_exit 0 unshare --net "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
[ "$(status_of "$mnt" .state)" = unknown ] || fail "the state is '$(status_of "$mnt" .state)'"
dd if="$work/plain" of="$mnt/image" bs=64k status=none
exec 7<"$mnt/image"
expect_error 5 "$CRYPTIMG" umount "$mnt"
is_mounted || fail "unmounted though in use"
exec 7<&-
expect_exit 0 "$CRYPTIMG" umount "$mnt"
expect_said "cannot be asked"
expect_said "$mnt"
[ "$(wc -l <"$err")" = 1 ] || fail "not one sentence: $(cat "$err")"
not_mounted || fail "still mounted"
eventually no_daemons
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A daemon that was unmounted lazily while in use still holds its container: status lists it, and
# the next mount is told who has it, until the last user lets go.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M
mkdir "$work/other"
mount_image "$work/c.img"
pid=$(daemon_of)
exec 7<"$mnt/image"
expect_exit 0 "$CRYPTIMG" umount --lazy "$mnt"
not_mounted || fail "still in the mount table"
[ "$(status_of "$work/c.img" .state)" = detached ] || fail "the state is '$(status_of "$work/c.img" .state)'"
[ "$(status_of "$work/c.img" .pid)" = "$pid" ] || fail "the pid is '$(status_of "$work/c.img" .pid)', not $pid"
expect_exit 0 "$CRYPTIMG" status
grep -qF "$work/c.img on $mnt: detached" "$out" || fail "status does not list it: $(cat "$out")"
expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/other"
expect_said "daemon $pid holds it"
expect_said "$mnt"

exec 7<&-
eventually gone "$pid"
expect_error 4 "$CRYPTIMG" status "$work/c.img"
mount_image "$work/c.img"
umount_image

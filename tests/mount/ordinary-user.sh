#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A user without any privilege creates, mounts, writes, reads and unmounts. Run as root, it makes a
# user, and opens /dev/fuse for all meanwhile where it is root's only.
. "$(dirname "$0")/lib.sh"
require jq fusermount3
if ! as_root; then
  require_fuse
  as_user() { "$@"; }
else
  require useradd userdel setpriv
  [ -u "$(command -v fusermount3)" ] || skip "fusermount3 is not setuid"
  user=cryptimg-t$$
  test_cleanup() {
    for path in $(our_mounts); do umount "$path"; done
    eventually no_daemons
    userdel "$user"
  }
  useradd --no-create-home --shell /bin/sh "$user"
  open_fuse_to_all
  as_user() { HOME=$work setpriv --reuid "$user" --regid "$user" --clear-groups "$@"; }
  chown -R "$user" "$work"
  case $CRYPTIMG in /root/*) cp "$CRYPTIMG" "$work/cryptimg" && CRYPTIMG=$work/cryptimg ;; esac
  as_user test -x "$CRYPTIMG" || skip "the user cannot reach $CRYPTIMG"
fi

expect_exit 0 as_user "$CRYPTIMG" create "$work/c.img" --size 4M --key-file "$key" "${cheap[@]}"
expect_exit 0 as_user "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
if ! grep -q '^user_allow_other' /etc/fuse.conf 2>/dev/null; then
  grep -qF user_allow_other "$out" "$err" || fail "mount does not say what root lacks to attach a loop device"
fi
expect_exit 0 as_user "$CRYPTIMG" umount "$mnt"
eventually no_daemons

# What fusermount3 refuses is one sentence with its reason.
if ! grep -q '^user_allow_other' /etc/fuse.conf 2>/dev/null; then
  for word in allow_other allow_root; do
    expect_error 4 as_user "$CRYPTIMG" mount --key-file "$key" -o $word "$work/c.img" "$mnt"
    expect_said "with $word: the line user_allow_other is not in /etc/fuse.conf"
  done
fi
if as_root; then
  mkdir -m 755 "$work/roots"
  expect_error 4 as_user "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/roots"
  expect_said "write access"
fi
expect_exit 0 as_user "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
random_file "$work/plain" $((4 << 20))
chmod 644 "$work/plain"
as_user dd if="$work/plain" of="$mnt/image" bs=512k oflag=direct status=none
as_user cmp "$work/plain" "$mnt/image" || fail "read something else than was written"
expect_exit 0 as_user "$CRYPTIMG" status
grep -qF "$mnt" "$out" || fail "status does not list the user's mount"
expect_exit 5 as_user "$CRYPTIMG" mount --key-file "$key" -r "$work/c.img" "$mnt"
expect_exit 0 as_user "$CRYPTIMG" umount "$mnt"
eventually no_daemons

# The janitor unmounts a killed daemon's mount without any privilege either.
expect_exit 0 as_user "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
daemon=$(as_user "$CRYPTIMG" status --json "$mnt" | jq -er '.. | .pid? // empty')
as_user kill -9 "$daemon" 2>/dev/null || kill -9 "$daemon"
eventually not_mounted
expect_exit 0 as_user "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
as_user cmp "$work/plain" "$mnt/image" || fail "read something else after kill -9"

# umount(8)'s helper ends the daemon just as cleanly.
expect_exit 0 as_user fusermount3 -u "$mnt"
eventually no_daemons

# A container that can only be read.
chmod 444 "$work/c.img"
as_root && chown root "$work/c.img"
expect_exit 4 as_user "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
expect_exit 0 as_user "$CRYPTIMG" mount -r --key-file "$key" "$work/c.img" "$mnt"
as_user cmp "$work/plain" "$mnt/image" || fail "read something else read-only"
expect_exit 0 as_user "$CRYPTIMG" umount "$mnt"

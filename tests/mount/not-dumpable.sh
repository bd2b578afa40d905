#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The daemon cannot be dumped or traced by its own user: the files in /proc/PID
# belong to root.
. "$(dirname "$0")/lib.sh"
require jq
as_root || require_fuse

make_container "$work/c.img" 256K
run_as=()
if as_root; then
  require setpriv
  # As another user than root the owner of /proc/PID/environ shows it; root's files are root's anyway.
  chmod 711 "$work"
  chown -R 65534:65534 "$work/c.img" "$key" "$mnt" "$work/sanitizer"
  open_fuse_to_all
  run_as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
expect_exit 0 "${run_as[@]}" "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
daemon=$("${run_as[@]}" "$CRYPTIMG" status --json "$mnt" | jq -er '.. | .pid? // empty')
[ "$(stat -c %u "/proc/$daemon/environ")" = 0 ] || fail "the daemon is dumpable"
expect_exit 1 "${run_as[@]}" cat "/proc/$daemon/environ"
expect_exit 0 "${run_as[@]}" "$CRYPTIMG" umount "$mnt"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A killed janitor is noticed and logged at once. Without a sandbox SIGTERM still flushes and unmounts,
# and still waits for whoever holds the image. In the sandbox it flushes and serves on until somebody
# unmounts, or a second signal comes.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

kill_janitor() {
  local pid
  for pid in $(our_daemons); do
    [ "$pid" = "$1" ] || kill -9 "$pid"
  done
  eventually grep -q "janitor process is gone" "$work/log"
}

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))

# 20 seconds, which `eventually` waits, is far from the 60 that a held image is served for.
mount_image "$work/c.img" "$mnt" --no-sandbox --log-file "$work/log"
daemon=$(daemon_of)
dd if="$work/plain" of="$mnt/image" bs=64k status=none
kill_janitor "$daemon"
same "$mnt/image" "$work/plain"
kill -TERM "$daemon"
eventually gone "$daemon"
not_mounted || fail "the daemon left a dead mount"
if grep -q "held by" "$work/log"; then fail "nothing held the mount: $(cat "$work/log")"; fi

rm "$work/log"
mount_image "$work/c.img" "$mnt" --no-sandbox --log-file "$work/log"
daemon=$(daemon_of)
exec 7<"$mnt/image"
kill_janitor "$daemon"
kill -TERM "$daemon"
eventually grep -q "held by" "$work/log"
cmp - "$work/plain" <&7 || fail "the open file stopped working"
is_mounted || fail "unmounted although it is held"
exec 7<&-
eventually gone "$daemon"
not_mounted || fail "still mounted after it was let go"

# A second signal forces.
rm "$work/log"
mount_image "$work/c.img" "$mnt" --no-sandbox --log-file "$work/log"
daemon=$(daemon_of)
exec 7<"$mnt/image"
kill_janitor "$daemon"
kill -TERM "$daemon"
eventually grep -q "held by" "$work/log"
kill -TERM "$daemon"
eventually gone "$daemon"
not_mounted || fail "a forced end left a dead mount"
exec 7<&-

# umount needs no janitor.
rm "$work/log"
mount_image "$work/c.img" "$mnt" --no-sandbox --log-file "$work/log"
kill_janitor "$(daemon_of)"
umount_image
eventually no_daemons

# In the sandbox the daemon cannot unmount. It says so, and serves on; nothing is lost.
random_file "$work/other" $((1 << 20))
for ending in umount signal; do
  rm "$work/log"
  mount_image "$work/c.img" "$mnt" --log-file "$work/log"
  daemon=$(daemon_of)
  kill_janitor "$daemon"
  kill -TERM "$daemon"
  if [ -z "${CRYPTIMG_SANITIZED:-}" ]; then
    eventually grep -q 'cannot unmount .* unmount it, or signal again' "$work/log"
    dd if="$work/other" of="$mnt/image" bs=64k status=none
    same "$mnt/image" "$work/other"
    if [ $ending = umount ]; then umount_image; else kill -TERM "$daemon"; fi
  fi
  eventually gone "$daemon"
done
# What a forced end leaves is cleared by the next mount there.
mount_image "$work/c.img"
[ -n "${CRYPTIMG_SANITIZED:-}" ] || same "$mnt/image" "$work/other"
umount_image

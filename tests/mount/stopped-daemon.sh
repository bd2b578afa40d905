#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A daemon that is stopped (SIGSTOP, as a freezer or a suspend does) with I/O pending, and goes on later:
# requests wait, commands do not hang, and then everything is as if nothing had been.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

test_cleanup() { [ -z "${daemon:-}" ] || kill -CONT "$daemon" 2>/dev/null; }

mkdir "$work/other"
make_container "$work/c.img" 8M
mount_image "$work/c.img"
daemon=$(daemon_of)

is_stopped() { grep -q '^State:.T' "/proc/$daemon/status"; }
for round in 1 2 3; do
  random_file "$work/plain" $((8 << 20))
  dd if="$work/plain" of="$mnt/image" bs=64k oflag=direct conv=notrunc,fsync status=none &
  writer=$!
  # Some of it is done, some is not.
  [ $round = 1 ] || sleep 0.0$round
  kill -STOP "$daemon"
  eventually is_stopped
  dd if="$mnt/image" of="$work/read.$round" bs=64k iflag=direct status=none &
  reader=$!
  # Commands end, whatever they have to say.
  code=0
  timeout 30 "$CRYPTIMG" status >"$out" 2>"$err" || code=$?
  [ $code != 124 ] || fail "status hangs while the daemon is stopped"
  grep -qF "$work/c.img" "$out" || fail "status does not name the mount of a stopped daemon"
  code=0
  timeout 30 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/other" >"$out" 2>"$err" || code=$?
  [ $code = 5 ] || fail "a second mount beside a stopped daemon: exit $code"
  kill -0 $reader 2>/dev/null || fail "the reader did not wait: nothing was shown"
  kill -CONT "$daemon"
  wait $writer || fail "the writer failed"
  wait $reader || fail "the reader failed"
  same "$mnt/image" "$work/plain"
done
umount_image
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

# An unmount that meets a stopped daemon waits for it, and is then as good as any.
mount_image "$work/c.img"
daemon=$(daemon_of)
random_file "$work/plain" $((8 << 20))
dd if="$work/plain" of="$mnt/image" bs=1M conv=notrunc status=none
kill -STOP "$daemon"
eventually is_stopped
"$CRYPTIMG" umount "$mnt" >"$out" 2>"$err" &
unmounter=$!
sleep 0.5
kill -0 $unmounter 2>/dev/null || fail "umount ended though the daemon is stopped: $(cat "$err")"
kill -CONT "$daemon"
wait $unmounter || fail "umount failed: $(cat "$err")"
gone "$daemon" || fail "the daemon outlived umount"
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

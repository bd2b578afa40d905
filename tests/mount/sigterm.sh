#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# SIGTERM and SIGINT flush and unmount; while something holds the image the daemon goes on serving
# until it is let go.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))
for signal in TERM INT; do
  mount_image "$work/c.img"
  dd if="$work/plain" of="$mnt/image" bs=64k status=none
  kill -$signal "$(daemon_of)"
  eventually not_mounted
  eventually no_daemons
  mount_image "$work/c.img" "$mnt" -r
  same "$mnt/image" "$work/plain"
  umount_image
done

mount_image "$work/c.img"
exec 7<>"$mnt/image"
daemon=$(daemon_of)
kill -TERM "$daemon"
head -c $((1 << 20)) <&7 | cmp - "$work/plain" || fail "the open file stopped working after SIGTERM"
printf y | dd of=/dev/fd/7 bs=1 conv=notrunc status=none 2>/dev/null || fail "a write failed after SIGTERM"
[ -e "/proc/$daemon" ] || fail "the daemon is gone while the image is held"
exec 7>&-
eventually gone "$daemon"
eventually not_mounted

# In the foreground, ended by the shell's own signal.
"$CRYPTIMG" mount --foreground --key-file "$key" "$work/c.img" "$mnt" >"$out" 2>"$err" &
daemon=$!
ready() { [ -e "$mnt/image" ]; }
eventually ready
kill -INT $daemon 2>/dev/null
code=0
wait $daemon || code=$?
[ $code = 0 ] || fail "exit $code in the foreground"
eventually no_daemons

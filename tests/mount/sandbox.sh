#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The daemon's sandbox, seen from outside: what the kernel says of each thread, what is open, that it
# serves, logs and ends as ever, and that --no-sandbox leaves it out. unit/sandbox_test.cc looks from
# inside.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse
[ -z "${CRYPTIMG_SANITIZED:-}" ] || skip "sanitizers need more than the sandbox leaves"

make_container "$work/c.img" 4M
random_file "$work/plain" $((4 << 20))
mount_image "$work/c.img" "$mnt" --log-file "$work/log"
daemon=$(daemon_of)
grep -q 'sandbox: no capabilities, .*filtered system calls' "$work/log" || fail "not logged: $(cat "$work/log")"
[ "$(find "/proc/$daemon/task" -mindepth 1 -maxdepth 1 | wc -l)" -ge 4 ] || fail "fewer threads than the four that serve"

# Nothing is open but what serving needs, and the library of LUKS had for itself.
if as_root; then
  find "/proc/$daemon/fd" -type l -printf '%l\n' | sort -u |
    grep -vE '^(/dev/null|/dev/fuse|/dev/u?random|socket:\[[0-9]+\]|anon_inode:\[(eventfd|signalfd)\]|'"$work"'/(c\.img|log))$' >"$work/stray" || true
  [ ! -s "$work/stray" ] || fail "also open: $(cat "$work/stray")"
  # It does not keep the session's threads from their two descriptors each: to wait with, to look with.
  [ "$(find "/proc/$daemon/fd" -type l -printf '%l\n' | grep -c '^/dev/fuse$')" = $((2 * $(status_of "$mnt" .session_threads))) ] ||
    fail "not two descriptors of /dev/fuse for each thread"
fi

# All kinds of requests.
dd if="$work/plain" of="$mnt/image" bs=1M oflag=direct conv=notrunc status=none
dd if="$work/plain" of="$mnt/image" bs=7777 conv=notrunc,fsync status=none
same "$mnt/image" "$work/plain"
fallocate --zero-range --offset 5000 --length 100000 "$mnt/image"
fallocate --offset 0 --length 4M "$mnt/image"
stat -f "$mnt" >/dev/null
truncate -s 4M "$mnt/image"
[ "$(dd if="$mnt/image" bs=1 skip=5000 count=16 status=none | xxd -p)" = 00000000000000000000000000000000 ] || fail "not zeroed"
expect_exit 0 "$CRYPTIMG" status "$mnt"
dd if="$work/plain" of="$mnt/image" bs=64k conv=notrunc status=none

# All that is within what it may do: the sandbox has refused nothing.
[ "$(status_of "$mnt" .refused_calls)" = 0 ] || fail "serving makes calls that the sandbox refuses"

# SIGTERM: still told who holds it, still unmounted by the janitor.
exec 7<"$mnt/image"
kill -TERM "$daemon"
eventually grep -q "held by process $$ " "$work/log"
exec 7<&-
eventually gone "$daemon"
not_mounted || fail "still mounted"
grep -q ': ended$' "$work/log" || fail "it did not end well: $(cat "$work/log")"

mount_image "$work/c.img" "$mnt" --no-sandbox
same "$mnt/image" "$work/plain"
grep -q '^Seccomp:.0$' "/proc/$(daemon_of)/status" || grep -q '^Seccomp:.2$' /proc/self/status || fail "a filter without a sandbox"
umount_image
mount_image "$work/c.img" "$mnt" -o no-sandbox
umount_image

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# umount while the disk is stalled (strace holds the daemon's calls up): with a write pending it is busy
# and says who holds the image; --lazy goes, and the write still arrives; a last flush that takes
# seconds is waited for; but not a read that nobody asked for.
. "$(dirname "$0")/lib.sh"
require jq strace
require_root
require_fuse

test_cleanup() { [ -z "${tracer:-}" ] || kill "$tracer" 2>/dev/null; }
traced() { ! grep -q '^TracerPid:.0$' "/proc/$daemon"/task/*/status; }
hold_up() {  # hold_up CALLS: each by 3 seconds
  strace -f -e "trace=$1" -e "inject=$1:delay_enter=3000000" -o "$work/trace" -p "$daemon" 2>/dev/null &
  tracer=$!
  eventually traced
}
let_go() {
  kill $tracer 2>/dev/null || true
  wait $tracer || true
  tracer=
  grep -q DELAYED "$work/trace" || fail "nothing was held up"
}
begin() {
  mount_image "$work/c.img" "$mnt" "$@"
  daemon=$(daemon_of)
}
stalled() { [ "$(status_of "$mnt" .in_flight)" -ge 1 ]; }
writes=pwrite64,pwritev,pwritev2

make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))
for how in busy lazy; do
  begin
  hold_up $writes
  dd if="$work/plain" of="$mnt/image" bs=1M oflag=direct conv=notrunc status=none &
  writer=$!
  eventually stalled
  if [ $how = busy ]; then
    expect_error 5 timeout 30 "$CRYPTIMG" umount "$mnt"
    expect_said "dd"
    is_mounted || fail "unmounted though a write was pending"
  else
    expect_exit 0 timeout 30 "$CRYPTIMG" umount --lazy "$mnt"
    not_mounted || fail "--lazy left it mounted"
  fi
  kill -0 $writer 2>/dev/null || fail "the write was not stalled any more: nothing was shown"
  wait $writer || fail "the write failed"
  let_go
  if [ $how = busy ]; then umount_image; else eventually gone "$daemon"; fi
  mount_image "$work/c.img" "$mnt" -r
  same "$mnt/image" "$work/plain"
  umount_image
  random_file "$work/plain" $((1 << 20))
done

begin
dd if="$work/plain" of="$mnt/image" bs=1M conv=notrunc,fsync status=none
hold_up fdatasync
before=$(date +%s%N)
expect_exit 0 timeout 60 "$CRYPTIMG" umount "$mnt"
[ $((($(date +%s%N) - before) / 1000000)) -ge 2900 ] || fail "umount did not wait for the last flush"
gone "$daemon" || fail "the daemon outlived umount"
let_go
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

# What is read ahead for nobody, and stuck in the disk, does not hold umount up for as long: only its
# thread's reads are held up, by a minute and a half.
mount_image "$work/c.img" "$mnt" --backing-io buffered --log-file "$work/log"
daemon=$(daemon_of)
helper=
for task in "/proc/$daemon/task"/*; do
  if [ "$(cat "$task/comm")" = cryptimg-ahead ]; then helper=${task##*/}; fi
done
[ -n "$helper" ] || fail "no thread reads ahead"
strace -e trace=pread64 -e inject=pread64:delay_enter=90000000 -o "$work/trace" -p "$helper" 2>/dev/null &
tracer=$!
helper_traced() { ! grep -q '^TracerPid:.0$' "/proc/$daemon/task/$helper/status"; }
eventually helper_traced
# Stopped by its tracer at the call, which it is only while that is held up.
helper_stalled() {
  dd if="$mnt/image" of=/dev/null bs=32k iflag=direct status=none
  grep -q '^[0-9]* *pread64\|^pread64' "$work/trace" || grep -q '^State:.t' "/proc/$daemon/task/$helper/status"
}
eventually helper_stalled
"$CRYPTIMG" umount "$mnt" >"$out" 2>"$err" &
unmounter=$!
# The daemon gives up within its patience, the read being as stuck as before.
eventually grep -q "reading ahead is stuck" "$work/log"
kill -0 $tracer 2>/dev/null || fail "the read was not stuck any more: nothing was shown"
# A thread cannot end before its tracer lets it.
kill $tracer 2>/dev/null || true
wait $tracer || true
tracer=
wait $unmounter || fail "umount: $(cat "$err")"
not_mounted || fail "still mounted"
eventually gone "$daemon"
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

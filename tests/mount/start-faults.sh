#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What a mount needs to start fails in turn: processes, threads, pipes, sockets, memory, /dev/fuse, the mount
# itself. Then it says so in one sentence and leaves nothing behind; or it does without, and works.
. "$(dirname "$0")/lib.sh"
require strace jq
require_root
require_fuse
# They need all of these themselves.
if grep -q __asan_init "$CRYPTIMG" || grep -q __tsan_init "$CRYPTIMG"; then
  skip "sanitizers need the system calls themselves"
fi

test_cleanup() { [ -z "${tracer:-}" ] || kill "$tracer" 2>/dev/null; }
make_container "$work/c.img" 1M
random_file "$work/plain" $((1 << 20))
mount_image "$work/c.img"
dd if="$work/plain" of="$mnt/image" bs=64k conv=fsync status=none
umount_image

tracer_ended() { [ ! -e "/proc/$tracer" ] || grep -q '^State:.Z' "/proc/$tracer/status"; }
# Not by the mount table: what fails late was mounted for a moment.
ready_or_ended() { grep -q "is ready" "$out" || tracer_ended; }

refused=0
served=0
# try CALLS ERRNO NTH: the nth such call of each process and thread. Sets $hit where there was one.
try() {
  local code=0
  strace -f -o "$work/trace" -e "trace=$1" -e "inject=$1:error=$2:when=$3" \
    "$CRYPTIMG" mount --key-file "$key" --workers 2 "$work/c.img" "$mnt" </dev/null >"$out" 2>"$err" &
  tracer=$!
  eventually ready_or_ended
  if grep -q "is ready" "$out"; then
    # What mount has set up may be short of something, but not of the truth.
    timeout 60 cmp "$mnt/image" "$work/plain" || fail "$*: mounted, but reads something else"
    umount_image
    wait $tracer || true
    served=$((served + 1))
  else
    wait $tracer || code=$?
    [ $code != 0 ] || fail "$*: exit 0, but nothing is mounted"
    [ $code -le 5 ] || fail "$*: exit $code: $(cat "$err")"
    [ "$(grep -c '^cryptimg: [^w]' "$err")" = 1 ] || fail "$*: not one sentence: $(cat "$err")"
    refused=$((refused + 1))
  fi
  tracer=
  hit=$(grep -c INJECTED "$work/trace" || true)
  eventually no_daemons
  not_mounted || fail "$*: something is left mounted"
}
each() {  # each CALLS ERRNO: the first, the second, ... until there are no more
  local nth
  for nth in 1 2 3 4 5 6 7 8; do
    try "$1" "$2" $nth
    [ "$hit" -gt 0 ] || break
  done
  [ $nth -gt 1 ] || fail "the daemon never makes these calls: $1"
}

each clone,clone3,fork,vfork EAGAIN
each socketpair,pipe,pipe2 EMFILE
each socket EMFILE
each bind EADDRINUSE
each listen EADDRINUSE
each signalfd4 EMFILE
each eventfd2 EMFILE
each mount EPERM
each ioctl EMFILE
each flock EAGAIN
each setrlimit,prlimit64 EPERM
each mlock ENOMEM
[ $refused -ge 10 ] || fail "refused only $refused times"
echo "refused $refused times, served without $served times"

# And nothing of all this has touched the container.
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Each system call on the container fails in turn, in the running daemon (strace puts the failure
# there): the client gets that very errno, the daemon lives, and works when the fault is over; but
# a failed flush stays failed until the next mount. What takes seconds holds up itself only.
. "$(dirname "$0")/lib.sh"
require jq strace python3
require_root
require_fuse

test_cleanup() { [ -z "${tracer:-}" ] || kill "$tracer" 2>/dev/null; }

# client OPERATION: prints "ok" or the errno's name. The image is opened first, so that only the
# operation itself is judged.
cat >"$work/client.py" <<'PY'
import ctypes, errno, mmap, os, sys
path, operation = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
page = mmap.mmap(-1, 8192)
page.write(b"n" * 8192)
fd = os.open(path, os.O_RDWR | os.O_DIRECT)
def fallocate(mode, offset, length):
    if libc.fallocate(fd, mode, ctypes.c_long(offset), ctypes.c_long(length)) != 0:
        raise OSError(ctypes.get_errno(), "fallocate")
def durable():
    other = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC)
    os.pwritev(other, [page], 65536)
try:
    {"read": lambda: os.preadv(fd, [page], 0),
     "write": lambda: os.pwritev(fd, [page], 65536),
     "partial": lambda: os.pwrite(os.open(path, os.O_RDWR), b"n" * 100, 65536 + 200),
     "zero": lambda: fallocate(0x10, 65536, 8192),
     "allocate": lambda: fallocate(0, 65536, 8192),
     "fsync": lambda: os.fsync(fd),
     "durable": durable}[operation]()
    answer = "ok"
except OSError as error:
    answer = "EOPNOTSUPP" if error.errno == errno.EOPNOTSUPP else errno.errorcode[error.errno]
os.write(1, (answer + "\n").encode())
os._exit(0)
PY
client() { timeout 60 python3 "$work/client.py" "$mnt/image" "$1"; }

# inject CALLS:WHAT: from now on, in every thread of the daemon. stop_injecting checks that it happened.
traced() { ! grep -q '^TracerPid:.0$' "/proc/$daemon"/task/*/status; }
inject() {
  strace -f -e "trace=${1%%:*}" -e "inject=$1" -o "$work/trace" -p "$daemon" 2>/dev/null &
  tracer=$!
  eventually traced
}
stop_injecting() {
  kill $tracer
  wait $tracer || true
  tracer=
  grep -qE 'INJECTED|DELAYED' "$work/trace" || fail "the daemon does not make that call: $(cat "$work/trace")"
}

# suffers CALLS ERRNO OPERATION SEEN
suffers() {
  local seen
  inject "$1:error=$2"
  seen=$(client "$3")
  stop_injecting
  [ "$seen" = "$4" ] || fail "$3, while $1 fails with $2: $seen instead of $4"
  [ -e "/proc/$daemon" ] || fail "the daemon died of $2 in $1"
  [ "$(client read)" = ok ] || fail "reading does not work after $2 in $1"
}

make_container "$work/c.img" 1M --sector-size 4096
random_file "$work/plain" $((1 << 20))
begin() {
  # What is mapped is read without a system call; container-changes has its faults.
  mount_image "$work/c.img" "$mnt" --log-file "$work/log" --backing-io buffered
  daemon=$(daemon_of)
}
begin
dd if="$work/plain" of="$mnt/image" bs=64k conv=fsync status=none

reads=pread64,preadv,preadv2
writes=pwrite64,pwritev,pwritev2
for error in EIO EREMOTEIO EBADF; do
  suffers $reads $error read EIO
  suffers $reads $error partial EIO
  suffers $writes $error write EIO
  suffers $writes $error zero EIO
done
for error in ENOSPC EDQUOT; do
  suffers $writes $error write $error
  suffers $writes $error partial $error
  suffers $writes $error zero $error
  suffers fallocate $error allocate $error
done
suffers fallocate EOPNOTSUPP allocate EOPNOTSUPP
suffers fallocate EIO allocate EIO
suffers $writes EROFS write EROFS
suffers fstat,newfstatat EIO write EIO
# Interrupted calls are made again, and nobody hears of it.
for call in $reads $writes; do
  inject "$call:error=EINTR:when=1..3"
  [ "$(client partial)" = ok ] || fail "an interrupted call was not made again"
  stop_injecting
done
inject "fdatasync:error=EINTR:when=1..3"
[ "$(client fsync)" = ok ] || fail "an interrupted flush was not made again"
stop_injecting
grep -q "read failed: Input/output error" "$work/log" || fail "the log says nothing of reads"
grep -q "write failed: No space left on device" "$work/log" || fail "the log says nothing of writes"
grep -q "allocation failed: Disk quota exceeded" "$work/log" || fail "the log says nothing of allocation"

# What failed did no harm elsewhere, and all works: the same again, then everything is as written.
[ "$(client write)" = ok ] && [ "$(client fsync)" = ok ] || fail "the mount does not work after the faults"
dd if="$work/plain" of="$mnt/image" bs=64k conv=fsync status=none
umount_image
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

# A call that takes seconds holds up its own request; others, and status, do not wait.
begin
inject "$writes:delay_enter=3000000"
before=$(date +%s%N)
client write >"$work/slow" &
slow=$!
stalled() { [ "$(status_of "$mnt" .in_flight)" -ge 1 ]; }
eventually stalled
[ "$(client read)" = ok ] || fail "reading elsewhere fails while a write is stalled"
kill -0 $slow 2>/dev/null || fail "the write was not stalled: nothing was shown"
wait $slow
[ "$(cat "$work/slow")" = ok ] || fail "the stalled write ended with $(cat "$work/slow")"
[ $((($(date +%s%N) - before) / 1000000)) -ge 3000 ] || fail "the write did not take 3 s"
stop_injecting
umount_image

# Each errno of a flush, each way to ask for it; sticky, until the next mount.
for operation in fsync durable; do
  for error in EIO ENOSPC EDQUOT; do
    begin
    inject "fdatasync:error=$error"
    [ "$(client write)" = ok ] || fail "a write that asks for no flush failed"
    seen=$(client $operation)
    stop_injecting
    [ "$seen" = $error ] || fail "$operation, while fdatasync fails with $error: $seen"
    for again in fsync durable; do
      seen=$(client $again)
      [ "$seen" = $error ] || fail "$again after a failed flush: $seen instead of $error"
    done
    [ "$(client write)" = ok ] && [ "$(client read)" = ok ] || fail "reading and writing ended with the flush"
    expect_exit 4 "$CRYPTIMG" umount "$mnt"
    expect_said "flush"
    not_mounted || fail "still mounted"
    gone "$daemon" || fail "the daemon is still there"
  done
done
grep -q "flush failed: No space left on device" "$work/log" || fail "the log says nothing of flushes"
begin
[ "$(client fsync)" = ok ] || fail "a failed flush outlived the mount"
umount_image

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# fsync, fdatasync and O_SYNC reach the backing file before the reply: the daemon's flush counter
# moves with each, and strace (as root) sees the fdatasync.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M
mount_image "$work/c.img"
flushes() { status_of "$mnt" .counters.flushes; }
before=$(flushes)
dd if=/dev/zero of="$mnt/image" bs=4k count=1 conv=notrunc,fsync status=none
after=$(flushes)
[ "$after" -gt "$before" ] || fail "fsync did not flush"
before=$after
dd if=/dev/zero of="$mnt/image" bs=4k count=1 conv=notrunc,fdatasync status=none
after=$(flushes)
[ "$after" -gt "$before" ] || fail "fdatasync did not flush"
before=$after
dd if=/dev/zero of="$mnt/image" bs=4k count=5 oflag=sync conv=notrunc status=none
after=$(flushes)
[ "$after" -ge $((before + 5)) ] || fail "O_SYNC did not flush each write"
before=$after
dd if=/dev/zero of="$mnt/image" bs=4k count=5 oflag=dsync,direct conv=notrunc status=none
after=$(flushes)
[ "$after" -ge $((before + 5)) ] || fail "O_DSYNC did not flush each write"
# Closing syncs only what this descriptor wrote.
before=$after
cat "$mnt/image" >/dev/null
[ "$(flushes)" = "$before" ] || fail "a reader's close flushed"

if as_root && command -v strace >/dev/null; then
  daemon=$(daemon_of)
  strace -f -e trace=fdatasync,fsync -o "$work/trace" -p "$daemon" 2>/dev/null &
  tracer=$!
  traced() { ! grep -q '^TracerPid:.0$' "/proc/$daemon"/task/*/status; }
  eventually traced
  dd if=/dev/zero of="$mnt/image" bs=4k count=1 conv=notrunc,fsync status=none
  kill $tracer
  wait $tracer || true
  grep -qE 'f(data)?sync\([0-9]+\) += 0' "$work/trace" || fail "no fdatasync was seen: $(cat "$work/trace")"
fi
umount_image

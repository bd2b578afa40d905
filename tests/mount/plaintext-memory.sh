#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# An idle daemon holds no plaintext: what was read, written, refused and read ahead is wiped soon, in its
# whole memory, and at the end nothing is left.
. "$(dirname "$0")/lib.sh"
require jq python3
require_root
require_fuse
[ -z "${CRYPTIMG_SANITIZED:-}" ] || skip "sanitizers keep freed memory"

# 64 bytes that are like nothing else, all over.
word=$(head -c 32 /dev/urandom | xxd -p -c 64)
python3 -c 'import sys; sys.stdout.write((sys.argv[1] * 8) * (8 << 11))' "$word" >"$work/plain"
{
  echo "plaintext=$(printf %s "$word" | xxd -p -c 256)"
  echo "marker=$(printf %s "$work/c.img" | xxd -p -c 256)"
} >"$work/patterns"
scan() { "$root/tests/support/scan_memory.py" "$@" "$work/patterns" >"$work/found" || fail "cannot scan: $(cat "$work/found")"; }
holds() { scan find "$daemon" && grep -q '^plaintext ' "$work/found"; }
holds_none() { scan find "$daemon" && grep -q '^marker ' "$work/found" && ! grep -q '^plaintext ' "$work/found"; }
expect_wiped() { eventually holds_none || fail "plaintext stays after $1: $(cat "$work/found")"; }

make_container "$work/c.img" 8M --from "$work/plain"
for options in "" "--coalesce off --readahead 0 --backing-io buffered --engine openssl"; do
  # shellcheck disable=SC2086  # words
  mount_image "$work/c.img" "$mnt" $options
  daemon=$(daemon_of)

  # While somebody reads it is there: the scan can find it.
  while :; do dd if="$mnt/image" of=/dev/null bs=1M iflag=direct status=none; done &
  reader=$!
  eventually holds
  kill $reader
  wait $reader 2>/dev/null || true
  expect_wiped "large reads"

  dd if="$mnt/image" of=/dev/null bs=4k count=500 iflag=direct status=none
  same "$mnt/image" "$work/plain"
  expect_wiped "small reads, and reads ahead"

  dd if="$work/plain" of="$mnt/image" bs=1M oflag=direct conv=notrunc status=none
  expect_wiped "large writes"
  for size in 512 4k 7777 32k 100k; do
    dd if="$work/plain" of="$mnt/image" bs=$size count=20 conv=notrunc status=none
    expect_wiped "writes of $size"
  done
  # Some of it written, some refused.
  dd if="$work/plain" of="$mnt/image" bs=1M seek=7 count=2 oflag=direct conv=notrunc status=none 2>/dev/null || true
  dd if="$work/plain" of="$mnt/image" bs=100k seek=$((8 << 20)) oflag=seek_bytes conv=notrunc status=none 2>/dev/null || true
  dd if="$work/plain" of="$mnt/image" bs=1M seek=$(((7 << 20) + 4000)) oflag=seek_bytes conv=notrunc status=none 2>/dev/null || true
  expect_wiped "writes across the end"

  dd if="$work/plain" of="$mnt/image" bs=1M count=8 oflag=direct conv=notrunc status=none
  scan at-exit "$daemon"
  grep -q '^marker ' "$work/found" || fail "the scan finds nothing at all at exit"
  ! grep -vE '^(marker|scanned) ' "$work/found" || fail "plaintext at exit"
  eventually not_mounted
  eventually no_daemons
done

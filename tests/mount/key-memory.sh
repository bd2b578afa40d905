#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Where the volume key, its schedules and the passphrase are in the daemon's memory, and that they are
# nowhere else: by engine and cipher, while it serves, while it is locked, and when nothing is left for it
# but to end.
. "$(dirname "$0")/lib.sh"
require jq cryptsetup python3
require_root
require_fuse
[ -z "${CRYPTIMG_SANITIZED:-}" ] || skip "sanitizers keep freed memory"

# patterns MODE CONTAINER: into $work/patterns; also the passphrase, and a word that is no secret, which
# has to be found.
patterns() {
  rm -f "$work/volume-key"
  cryptsetup -q luksDump --dump-volume-key --volume-key-file "$work/volume-key" --key-file "$key" "$2" >/dev/null
  {
    "$root/tests/support/scan_memory.py" keys "$1" "$work/volume-key"
    echo "passphrase=$(xxd -p -c 64 "$key")"
    echo "marker=$(printf %s "$2" | xxd -p -c 256)"
  } >"$work/patterns"
}
scan() { "$root/tests/support/scan_memory.py" "$@" "$work/patterns" >"$work/found" || fail "cannot scan: $(cat "$work/found")"; }
# Nothing is there but the marker.
expect_no_secret() {
  grep -q '^marker ' "$work/found" || fail "the scan finds nothing at all ($1): $(cat "$work/found")"
  ! grep -vE '^(marker|scanned) ' "$work/found" || fail "secrets, or pages that cannot be read: $1"
}

# check MODE ENGINE KINDS [create's options]: KINDS is a pattern of where schedules may lie.
check() {
  local mode=$1 engine=$2 kinds=$3 daemon janitor
  shift 3
  make_container "$work/c.img" 4M --force "$@"
  patterns "$mode" "$work/c.img"
  mount_image "$work/c.img" "$mnt" --engine "$engine"
  daemon=$(daemon_of)
  dd if="$work/plain" of="$mnt/image" bs=1M oflag=direct conv=notrunc,fsync status=none
  dd if="$work/plain" of="$mnt/image" bs=7777 count=50 conv=notrunc,fsync status=none
  same "$mnt/image" "$work/plain"
  scan find "$daemon"
  ! grep -E '^(passphrase|whole|unreadable) ' "$work/found" || fail "$engine $mode: in the daemon's memory"
  ! grep -vE "^((data|tweak|essiv)\.[^ ]+ ($kinds) |marker |scanned )" "$work/found" || fail "$engine $mode: not where keys may be"
  grep -qE "^data\.encrypt" "$work/found" || fail "$engine $mode: the scan finds no schedule: $(cat "$work/found")"
  # Locked, there is none; and it comes back to where it may be.
  expect_exit 0 "$CRYPTIMG" lock "$mnt"
  scan find "$daemon"
  expect_no_secret "$engine $mode, locked"
  expect_exit 0 "$CRYPTIMG" unlock --key-file "$key" "$mnt"
  dd if="$work/plain" of="$mnt/image" bs=1M oflag=direct conv=notrunc,fsync status=none
  same "$mnt/image" "$work/plain"
  scan find "$daemon"
  ! grep -vE "^((data|tweak|essiv)\.[^ ]+ ($kinds) |marker |scanned )" "$work/found" || fail "$engine $mode: not where keys may be, after unlock"
  grep -qE "^data\.encrypt" "$work/found" || fail "$engine $mode: no schedule after unlock"
  for janitor in $(our_daemons); do
    [ "$janitor" != "$daemon" ] || continue
    scan find "$janitor"
    expect_no_secret "$engine $mode, janitor"
  done
  scan at-exit "$daemon"
  expect_no_secret "$engine $mode, at exit"
  eventually not_mounted
  eventually no_daemons
}

random_file "$work/plain" $((4 << 20))
# Locked too: RLIMIT_MEMLOCK is large enough on whatever runs this as root. The schedules of OpenSSL are
# where it allocates (SECURITY.md).
for engine in vaes openssl; do
  "$CRYPTIMG" engines --json | jq -e ".engines[] | select(.name == \"$engine\").usable" >/dev/null || continue
  case $engine in vaes) kinds=guarded ;; *) kinds='heap|anonymous' ;; esac
  check xts "$engine" "$kinds" --cipher aes-xts-plain64 --key-size 512
  check xts "$engine" "$kinds" --cipher aes-xts-plain --key-size 256
  check essiv "$engine" "$kinds" --cipher aes-cbc-essiv:sha256 --key-size 256
  check cbc "$engine" "$kinds" --type luks1 --cipher aes-cbc-plain64 --key-size 128
done

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# lock and unlock again and again under load: while held, no request fails and none is lost.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 16M
random_file "$work/plain" $((4 << 20))
mount_image "$work/c.img"
# Each in its own 4 MiB: writes, reads back, compares.
user() {
  local at=$1 flags=$2 round=0
  while [ ! -e "$work/stop" ]; do
    dd if="$work/plain" of="$mnt/image" bs=64k oflag="seek_bytes$flags" seek="$at" conv=notrunc status=none || return 1
    dd if="$mnt/image" bs=64k iflag="skip_bytes,count_bytes$flags" skip="$at" count=4M status=none | cmp - "$work/plain" || return 1
    round=$((round + 1))
    echo $round >"$work/rounds.$at"
  done
}
pids=()
for n in 0 1 2; do
  flags=
  [ $n = 1 ] || flags=,direct
  user $((n << 22)) "$flags" &
  pids+=($!)
done
eventually test -e "$work/rounds.0"
for _ in $(seq 12); do
  expect_exit 0 "$CRYPTIMG" lock --hold "$mnt"
  [ "$(status_of "$mnt" '.locked + " " + (.in_flight | tostring)')" = "hold 0" ] || fail "not held, or requests under way"
  writes=$(status_of "$mnt" .counters.writes)
  sleep 0.1
  [ "$(status_of "$mnt" .counters.writes)" = "$writes" ] || fail "served while held"
  expect_exit 0 "$CRYPTIMG" unlock --key-file "$key" "$mnt"
  sleep 0.1
done
touch "$work/stop"
for pid in "${pids[@]}"; do wait "$pid" || fail "a request failed, or other data came back"; done
[ "$(status_of "$mnt" '.counters | .read_errors + .write_errors')" = 0 ] || fail "requests failed"
[ "$(status_of "$mnt" .refused_calls)" = 0 ] || fail "the sandbox refused calls"

# Failing: each request fails or is served, the daemon lives, and the data of those that did not is there.
rm "$work/stop"
while [ ! -e "$work/stop" ]; do dd if="$mnt/image" of=/dev/null bs=128k iflag=direct 2>/dev/null || true; done &
reader=$!
for _ in $(seq 8); do
  expect_exit 0 "$CRYPTIMG" lock "$mnt"
  expect_exit 1 dd if="$mnt/image" of=/dev/null bs=4k count=1 iflag=direct
  expect_exit 0 "$CRYPTIMG" unlock --key-file "$key" "$mnt"
done
touch "$work/stop"
wait $reader
dd if="$mnt/image" bs=1M count=4 status=none | cmp - "$work/plain" || fail "other data after all"
umount_image

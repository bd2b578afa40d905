#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# info, status and engines say what is so; --json keys are those of docs/json.md.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

make_container "$work/c.img" 1M --label lab --uuid 12345678-1234-1234-1234-123456789abc
expect_exit 0 "$CRYPTIMG" info "$work/c.img"
for word in LUKS2 12345678-1234-1234-1234-123456789abc lab aes-xts-plain64 512 4096 pbkdf2; do
  grep -q -- "$word" "$out" || fail "info does not say $word"
done
expect_exit 0 "$CRYPTIMG" info --json "$work/c.img"
jq -e '.type == "LUKS2" and .cipher == "aes-xts-plain64" and .sector_size == 4096 and (.keyslots | length) == 1' \
  "$out" >/dev/null || fail "info --json: $(cat "$out")"

expect_exit 0 "$CRYPTIMG" engines
grep -q openssl "$out" || fail "engines does not list openssl"
expect_exit 0 "$CRYPTIMG" engines --json
[ "$(jq '[.. | .chosen? | select(.)] | length' "$out")" = 1 ] || fail "not exactly one engine is chosen"
chosen=$(jq -r '.. | objects | select(.chosen?) | .name' "$out")

mount_image "$work/c.img"
expect_exit 0 "$CRYPTIMG" status
grep -qF "$mnt" "$out" || fail "status does not list the mount"
expect_exit 0 "$CRYPTIMG" status "$mnt"
grep -q "engine $chosen" "$out" || fail "status does not name the engine"
reads=$(status_of "$mnt" .counters.read_bytes)
dd if="$mnt/image" of=/dev/null bs=64k iflag=direct status=none
[ $(($(status_of "$mnt" .counters.read_bytes) - reads)) = $((1 << 20)) ] || fail "the counters do not count"

# Every key that is printed is documented.
documented=$root/docs/json.md
for command in "status --json" "info --json $work/c.img" "engines --json"; do
  # shellcheck disable=SC2086
  "$CRYPTIMG" $command | jq -r '[paths | .[-1] | select(type == "string")] | unique[]' | while read -r name; do
    grep -qE "[\`\"]${name}[\`\"]" "$documented" || fail "docs/json.md does not name '$name' ($command)"
  done
done
umount_image
expect_exit 0 "$CRYPTIMG" status
if grep -qF "$mnt" "$out"; then fail "status lists a mount that is gone"; fi

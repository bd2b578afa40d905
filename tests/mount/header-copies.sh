#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A container of which only one copy of the header is good is served, unchanged, and both mount and
# info say so, until cryptsetup has repaired it.
. "$(dirname "$0")/lib.sh"
require cryptsetup jq
require_fuse

make_container "$work/good.img" 256K
[ "$("$CRYPTIMG" info --json "$work/good.img" | jq -r .warning)" = "" ] || fail "a warning about a good container"

for copy in 0 1; do
  cp "$work/good.img" "$work/c.img"
  dd if=/dev/zero of="$work/c.img" bs=16384 seek=$copy count=1 conv=notrunc status=none
  before=$(sha256sum <"$work/c.img")
  said=$("$CRYPTIMG" info --json "$work/c.img" | jq -r .warning)
  case $copy:$said in
    0:'the first copy'*"cryptsetup repair"* | 1:'the second copy'*"cryptsetup repair"*) ;;
    *) fail "with copy $copy wiped info says '$said'" ;;
  esac
  mount_image "$work/c.img" "$mnt"
  grep -q 'warning: .*copy of its LUKS2 header is damaged' "$err" || fail "mount does not warn: $(cat "$err")"
  umount_image
  [ "$(sha256sum <"$work/c.img")" = "$before" ] || fail "the container was changed"
  cryptsetup -q repair "$work/c.img"
  [ "$("$CRYPTIMG" info --json "$work/c.img" | jq -r .warning)" = "" ] || fail "cryptsetup repair did not help copy $copy"
done

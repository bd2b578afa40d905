#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The ways of reading and writing the container: the content is the same by each, and by one after another;
# by direct I/O nothing of it stays in the page cache.
. "$(dirname "$0")/lib.sh"
require jq fincore
require_fuse

c=$work/c.img
random_file "$work/plain" $((8 << 20))
make_container "$c" 8M

for io in auto mapped buffered direct; do
  if [ $io = direct ] && ! dd if="$c" of=/dev/null bs=4k count=1 iflag=direct status=none 2>/dev/null; then
    skip "this file system has no direct I/O"
  fi
  head -c 1000000 /dev/urandom >"$work/part"
  mount_image "$c" "$mnt" --backing-io $io --readahead 0
  dd if="$work/plain" of="$mnt/image" bs=1M conv=notrunc,fsync status=none
  # Bytes of partial sectors at both ends, and pieces that no page boundary meets.
  dd if="$work/part" of="$mnt/image" bs=77777 seek=12345 oflag=seek_bytes conv=notrunc,fsync status=none
  dd if="$work/part" of="$work/plain" bs=77777 seek=12345 oflag=seek_bytes conv=notrunc status=none
  umount_image
  mount_image "$c" "$mnt" --backing-io $io --readahead 0
  for read in "bs=1M iflag=direct" "bs=64k" "bs=12345"; do
    # shellcheck disable=SC2086
    dd if="$mnt/image" of="$work/found" $read status=none
    cmp "$work/found" "$work/plain" || fail "$io: $read reads differently"
  done
  mapped=$(status_of "$mnt" .counters.mapped_bytes)
  case $io in
    mapped) [ "$mapped" -ge $((8 << 20)) ] || fail "mapped: only $mapped bytes out of the mapping" ;;
    buffered | direct) [ "$mapped" = 0 ] || fail "$io: $mapped bytes out of a mapping" ;;
  esac
  if [ $io = direct ]; then
    # What came into memory by the header, or before, is dropped first.
    dd if="$c" iflag=nocache count=0 status=none
    before=$(fincore --bytes --noheadings --output RES "$c")
    dd if="$mnt/image" of=/dev/null bs=1M iflag=direct status=none
    after=$(fincore --bytes --noheadings --output RES "$c")
    [ "$after" -le "$before" ] || fail "direct: the page cache holds $after bytes of the container, $before before"
    [ "$after" -lt $((4 << 20)) ] || fail "direct: the page cache could not be emptied, so nothing is shown"
  fi
  umount_image
done

# Memory as a file system may have none: then one sentence, and nothing is mounted.
cp --sparse=always "$c" "$work/odd.img"
status=0
"$CRYPTIMG" mount "$work/odd.img" "$mnt" --key-file "$key" --backing-io sideways 2>"$err" || status=$?
[ $status = 1 ] || fail "a way that is none: exit $status"
grep -q "auto, mapped, buffered or direct" "$err" || fail "unclear: $(cat "$err")"
not_mounted || fail "mounted nevertheless"

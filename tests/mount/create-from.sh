#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# create --from FILE encrypts a file's content, holes and all.
. "$(dirname "$0")/lib.sh"
require_fuse

truncate -s 3M "$work/plain"
random_file "$work/piece" 70000
dd if="$work/piece" of="$work/plain" bs=1 seek=1000000 conv=notrunc status=none
expect_exit 0 "$CRYPTIMG" create "$work/c.img" --from "$work/plain" --key-file "$key" "${cheap[@]}"
mount_image "$work/c.img" "$mnt" -r
same "$mnt/image" "$work/plain"
umount_image

# Larger than the file: the rest reads as anything, the file's bytes come first. Smaller: refused.
expect_exit 0 "$CRYPTIMG" create "$work/big.img" --size 4M --from "$work/plain" --key-file "$key" "${cheap[@]}"
mount_image "$work/big.img" "$mnt" -r
cmp -n $((3 << 20)) "$mnt/image" "$work/plain" || fail "the content differs"
umount_image
expect_error 1 "$CRYPTIMG" create "$work/small.img" --size 1M --from "$work/plain" --key-file "$key" "${cheap[@]}"
[ ! -e "$work/small.img" ] || fail "something was left behind"
expect_error 4 "$CRYPTIMG" create "$work/none.img" --from "$work/absent" --key-file "$key" "${cheap[@]}"
[ ! -e "$work/none.img" ] || fail "something was left behind"

# Not into itself, whatever its name.
ln "$work/plain" "$work/same"
before=$(checksum "$work/plain")
expect_error 1 "$CRYPTIMG" create "$work/same" --force --from "$work/plain" --key-file "$key" "${cheap[@]}"
expect_said itself
[ "$(checksum "$work/plain")" = "$before" ] || fail "the source changed"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Of several mounts made on one mount point at once, one is there in the end and the others are
# exit 5: no two are stacked.
. "$(dirname "$0")/lib.sh"
require_fuse

make_container "$work/c.img" 256K
make_container "$work/d.img" 256K
for round in 1 2 3 4 5; do
  pids=()
  for file in c d c d; do
    "$CRYPTIMG" mount -r --key-file "$key" "$work/$file.img" "$mnt" >/dev/null 2>"$err.${#pids[@]}" &
    pids+=($!)
  done
  codes=
  for pid in "${pids[@]}"; do
    code=0
    wait "$pid" || code=$?
    codes+=$code
  done
  [ "$(our_mounts | wc -l)" = 1 ] || fail "round $round: $(our_mounts | wc -l) mounts, exits $codes"
  [[ $codes =~ ^5*05*$ ]] || fail "round $round: exits $codes: $(cat "$err".*)"
  umount_image
  eventually no_daemons
done

# Another program's lock on the folder is waited for, for a while.
if command -v flock >/dev/null; then
  exec 8<"$mnt"
  flock 8
  expect_error 5 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt" 8<&-
  expect_said "another program holds a lock"
  exec 8<&-
  mount_image "$work/c.img"
  umount_image
fi

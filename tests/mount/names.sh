#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A file name cannot set mount options, however odd; status and umount find it again, and the losetup
# line that mount prints can be pasted.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

for name in 'a,allow_other,b' 'a\,allow_other' 'with space' 'back\slash\134' $'new\nline' $'tab\there' 'quote"'\' '#hash' \
  'comma,ro' '-leading' ',' '\' 'ünïcode'; do
  container="$work/$name"
  make_container "$container" 256K
  expect_exit 0 "$CRYPTIMG" mount --key-file "$key" -- "$container" "$mnt"
  line=$(grep -F " fuse.cryptimg " /proc/self/mountinfo | grep -F " $mnt ")
  [ "$(wc -l <<<"$line")" = 1 ] || fail "not one line in mountinfo for '$name'"
  case ${line##* } in *allow_other*) fail "the name '$name' set an option" ;; esac
  [ "$(status_of "$mnt" .read_only)" = false ] || fail "the name '$name' set an option"
  [ "$(status_of "$mnt" .container)" = "$container" ] || fail "status shows '$(status_of "$mnt" .container)' for '$name'"
  expect_exit 0 "$CRYPTIMG" umount -- "$container"
  not_mounted || fail "umount by the name '$name' did not unmount"
  rm -- "$container"

  mkdir -- "$work/$name"
  make_container "$work/c.img" 256K --force
  expect_exit 0 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$work/$name"
  [ -e "$work/$name/image" ] || fail "not mounted on '$name'"
  [ "$(grep -c losetup "$out")" = 1 ] || fail "not one losetup line for '$name'"
  eval "pasted=($(grep losetup "$out"))"
  [ "${pasted[-1]}" = "$work/$name/image" ] || fail "the losetup line pasted names '${pasted[-1]}'"
  expect_exit 0 "$CRYPTIMG" umount -- "$work/$name"
  rmdir -- "$work/$name"
done

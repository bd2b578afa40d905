#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What the kernel's dm-crypt writes, into containers that cryptsetup has made, the mount shows, in
# every form of container, and where sector numbers need more than 32 bits.
. "$(dirname "$0")/lib.sh"
require_guest
require_fuse

# add NAME SIZE START FORM: a container for the guest to write 1 MiB into, from START (in units of 512 KiB).
add() {
  local options=(--type "$4" --cipher "$5" --key-size "$6") header=$((2 << 20))
  if [ "$4" = luks2 ]; then
    options+=(--sector-size "$7")
    header=$((16 << 20))
  fi
  make_luks "$share/$1" $((header + $2)) --offset $((header / 512)) "${options[@]}"
  echo "$1 $2 $3" >>"$share/wanted"
}

random_file "$share/plain" $((1 << 20))
mapfile -t near < <(forms)
mapfile -t far < <(far_forms)
# shellcheck disable=SC2086  # a form is several words
{
  for form in "${near[@]}"; do add "$(name_of "$form")" $((1 << 20)) 0 $form; done
  for form in "${far[@]}"; do add "far-$(name_of "$form")" $far_size $far_start $form; done
}
[ "$(wc -l <"$share/wanted")" = 75 ] || fail "not all forms were made"

run_guest dm-crypt-writes

last_written() { tail -c $((1 << 20)) "$mnt/image" | cmp -s - "$share/plain"; }
while read -r name size _; do
  mount_image "$share/$name" "$mnt" --readonly </dev/null
  [ "$(stat -c %s "$mnt/image")" = "$size" ] || fail "the image of $name has another size"
  last_written || fail "what dm-crypt wrote reads as something else: $name"
  umount_image
done <"$share/wanted"

for name in luks2-aes-xts-plain64-512-4096 luks1-aes-cbc-essiv-sha256-256-512; do
  flip_last_byte "$share/$name"
  mount_image "$share/$name" "$mnt" --readonly
  ! last_written || fail "a changed byte was not noticed: $name"
  umount_image
done

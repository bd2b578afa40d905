#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What is written through the mount, the kernel's dm-crypt reads back, in every form of container,
# and where sector numbers need more than 32 bits. The guest only tells what it reads; it is judged here.
. "$(dirname "$0")/lib.sh"
require_guest
require_fuse

# add NAME SIZE START FORM: a container, 1 MiB of it from START (in units of 512 KiB) written. The
# pieces of the write begin and end within sectors.
add() {
  random_file "$work/plain" $((1 << 20))
  make_container "$share/$1" "$2" --type "$4" --cipher "$5" --key-size "$6" --sector-size "$7"
  mount_image "$share/$1"
  dd if="$work/plain" of="$mnt/image" obs=77777 ibs=77777 seek=$(($3 << 19)) oflag=seek_bytes conv=notrunc status=none
  umount_image
  echo "$1 $3 $2 $(checksum "$work/plain")" >>"$share/expected"
}

mapfile -t near < <(forms)
mapfile -t far < <(far_forms)
# shellcheck disable=SC2086  # a form is several words
{
  for form in "${near[@]}"; do add "$(name_of "$form")" $((1 << 20)) 0 $form; done
  for form in "${far[@]}"; do add "far-$(name_of "$form")" $far_size $far_start $form; done
}
[ "$(wc -l <"$share/expected")" = 75 ] || fail "not all forms were made"

# And copies with one byte of ciphertext changed, whose content must therefore be another.
for name in luks2-aes-xts-plain64-512-4096 luks1-aes-cbc-essiv-sha256-256-512; do
  cp --sparse=always "$share/$name" "$share/flipped-$name"
  flip_last_byte "$share/flipped-$name"
  sed -n "s/^$name /flipped-&/p" "$share/expected" >>"$work/unchanged"
done
cat "$work/unchanged" >>"$share/expected"
[ "$(wc -l <"$work/unchanged")" = 2 ] || fail "no flipped copies"

run_guest dm-crypt-reads

[ "$(wc -l <"$share/seen")" = 77 ] || fail "the guest did not read every container"
diff <(grep -v ^flipped- "$share/expected") <(grep -v ^flipped- "$share/seen") || fail "dm-crypt reads something else (>)"
while read -r line; do
  ! grep -qxF -- "$line" "$share/seen" || fail "a changed byte was not noticed: $line"
done <"$work/unchanged"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# cryptsetup as oracle, for every cipher, key size and sector size, LUKS2 and LUKS1, attached and
# detached headers, made by cryptsetup and by create. cryptsetup encrypts and decrypts by itself,
# without the kernel (`reencrypt`), so:
#   by cryptsetup  it enciphers a file; the mount shows that file. Then noise is written through the
#                  mount, and the file again, in pieces: the container is what cryptsetup made of it
#   by create      the file is written through the mount; cryptsetup deciphers it to that file
# LUKS1, which reencrypt does not take, is reached by `cryptsetup convert`.
. "$(dirname "$0")/lib.sh"
require cryptsetup
require_fuse
require_root

every=${CRYPTIMG_ORACLE_EVERY:-1}  # only every so manieth combination
expected_count=$((260 / every))
workers=2
mib=$((1 << 20))
# Keyslot areas as small as they may be; LUKS1 is converted to and from what fits its own layout.
small=(--reduce-device-size 4M --luks2-keyslots-size 512k)
convertible=(--reduce-device-size 16M)

random_file "$work/source" $((2 * mib))
random_file "$work/noise" $((2 * mib))

combinations() {
  local maker layout form sector
  for maker in cryptsetup create; do
    for layout in attached detached; do
      for form in "aes-xts-plain64 256" "aes-xts-plain64 512" "aes-xts-plain 256" "aes-xts-plain 512" \
        "aes-cbc-essiv:sha256 128" "aes-cbc-essiv:sha256 192" "aes-cbc-essiv:sha256 256" \
        "aes-cbc-plain64 128" "aes-cbc-plain64 192" "aes-cbc-plain64 256" \
        "aes-cbc-plain 128" "aes-cbc-plain 192" "aes-cbc-plain 256"; do
        for sector in 512 1024 2048 4096; do echo "$maker $layout luks2 $form $sector"; done
        echo "$maker $layout luks1 $form 512"
      done
    done
  done
}

# Writes the file in ways of its own: in unaligned pieces, and parts of it twice, across sectors,
# pages and up to the very end, with noise in between. What is left is the file.
write_in_pieces() {  # write_in_pieces FILE TARGET SIZE
  dd if="$1" of="$2" bs=100001 iflag=fullblock conv=notrunc status=none
  dd if="$work/noise" of="$2" bs=512 seek=33 count=7 oflag=direct conv=notrunc status=none
  write_range "$work/noise" "$2" $(($3 - 777)) 777
  write_range "$1" "$2" 16001 5003
  write_range "$1" "$2" $(($3 - 900)) 900
}
write_range() {  # write_range FILE TARGET OFFSET COUNT
  dd if="$1" of="$2" bs=999 iflag=skip_bytes,count_bytes,fullblock oflag=seek_bytes skip="$3" seek="$3" count="$4" \
    conv=notrunc status=none
}

by_cryptsetup() {
  local area=()
  cp "$plain" "$data"
  if [ $layout = detached ]; then
    area=(--header "$header")
  else
    area=("${small[@]}")
    [ $type = luks2 ] || area=("${convertible[@]}")
    truncate -s "+${area[1]}" "$data"
  fi
  expect_exit 0 cryptsetup -q reencrypt --encrypt --type luks2 -c "$cipher" -s "$bits" --sector-size "$sector" \
    "${area[@]}" "${cheap[@]}" --key-file "$key" "$data"
  [ $type = luks2 ] || expect_exit 0 cryptsetup -q convert --type luks1 "$head"
  cp --sparse=always "$data" "$mine/made"
  mount_image "$data" "$mnt" "${with_header[@]}"
  cmp -n "$size" "$mnt/image" "$plain" || fail "cryptimg reads something else"
  dd if="$work/noise" of="$mnt/image" bs=1M count="$size" iflag=count_bytes conv=notrunc status=none
  write_in_pieces "$plain" "$mnt/image" "$size"
  umount_image
  same "$data" "$mine/made"
}

by_create() {
  make_container "$data" "$size" --type "$type" --cipher "$cipher" --key-size "$bits" --sector-size "$sector" \
    "${with_header[@]}"
  mount_image "$data" "$mnt" "${with_header[@]}"
  [ "$(stat -c %s "$mnt/image")" = "$size" ] || fail "an image of another size"
  write_in_pieces "$plain" "$mnt/image" "$size"
  umount_image
  [ $type = luks2 ] || expect_exit 0 cryptsetup -q convert --type luks2 "$head"
  expect_exit 0 cryptsetup -q reencrypt --decrypt --force-offline-reencrypt --header "$header" --key-file "$key" "$data"
  cmp -n "$size" "$data" "$plain" || fail "cryptsetup deciphers something else"
}

one_combination() {
  read -r maker layout type cipher bits sector <<<"$1"
  size=$((mib + 3 * sector))
  rm -f "$data" "$header"
  head -c "$size" "$work/source" >"$plain"
  head=$data
  with_header=()
  if [ "$layout" = detached ]; then
    head=$header
    with_header=(--header "$header")
  fi
  "by_$maker"
}

# Takes every workers'th combination, in a folder and on a mount point of its own.
worker() {
  mine=$work/$1
  mkdir -p "$mine/mnt"
  mnt=$mine/mnt data=$mine/data header=$mine/header plain=$mine/plain out=$mine/out err=$mine/err
  local number=0 line
  trap '[ -e "$mine/done" ] || { : >"$work/failed"; echo "failed at: ${line:-}"; cat "$out" "$err"; }' EXIT
  while read -r line; do
    number=$((number + 1))
    [ $((number % workers)) = "$1" ] || continue
    [ ! -e "$work/failed" ] || exit 1
    one_combination "$line"
    echo "$line" >>"$work/passed"
  done <"$work/combinations"
  : >"$mine/done"
}

combinations | awk -v every="$every" 'NR % every == 0' >"$work/combinations"
: >"$work/passed"
for ((index = 0; index < workers; ++index)); do
  worker $index &
done
wait
count=$(sort -u "$work/passed" | wc -l)
echo "$count combinations"
[ ! -e "$work/failed" ] || fail "a combination"
[ "$count" = $expected_count ] || fail "$count combinations instead of $expected_count"

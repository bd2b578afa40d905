#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Random operations through the mount against a model (tests/model), by one thread, by several in parts
# of their own, and by several at the same places. What the model holds at the end is what a second
# mount, and cryptsetup, read from the container.
#   CRYPTIMG_MODEL_FORMS       lines of "TYPE CIPHER KEY-BITS SECTOR-BYTES IMAGE-BYTES"
#   CRYPTIMG_MODEL_OPERATIONS  of all forms together
#   CRYPTIMG_MODEL_SEED        of the first trace; a failure prints its own
#   CRYPTIMG_SOAK=1            also drop the machine's page cache now and then (as root)
. "$(dirname "$0")/lib.sh"
: "${CRYPTIMG_MODEL:?set CRYPTIMG_MODEL to the cryptimg_model program}"
require_fuse

# The last one's image ends in the middle of a page, as an image with small sectors may.
forms=${CRYPTIMG_MODEL_FORMS:-"luks2 aes-xts-plain64 512 4096 8388608
luks2 aes-cbc-essiv:sha256 256 1024 8388608
luks2 aes-xts-plain64 256 512 8390144"}
operations=${CRYPTIMG_MODEL_OPERATIONS:-100000}
seed=${CRYPTIMG_MODEL_SEED:-1}
options=()
if [ "${CRYPTIMG_SOAK:-}" = 1 ] && as_root && [ -w /proc/sys/vm/drop_caches ]; then options=(drop-caches=1); fi

# check MODE PART-OF-1000 [options]: mounts, runs that part of the operations, and reads the result anew.
check() {
  local mode=$1 count=$((operations * $2 / 1000 / form_count))
  shift 2
  mount_image "$work/c.img"
  if ! timeout -k 10 1200 "$CRYPTIMG_MODEL" "$mode" "$mnt/image" seed="$seed" operations=$count save="$work/model" "$@" >"$out" 2>"$err"; then
    cat "$out" "$err"
    fail "$mode, with $form"
  fi
  seed=$((seed + 1))
  umount_image
  mount_image "$work/c.img" "$mnt" --readonly
  same "$mnt/image" "$work/model"
  umount_image
}

form_count=$(wc -l <<<"$forms")
while read -r form; do
  read -r type cipher bits sector size <<<"$form"
  make_container "$work/c.img" "$size" --force --type "$type" --cipher "$cipher" --key-size "$bits" --sector-size "$sector"
  check trace 600 "${options[@]}"
  check disjoint 200 threads=4
  check overlap 100 threads=4 cell="$sector"
  check overlap 100 threads=3 cell=$((sector / 8))
  # cryptsetup cannot take the header off a LUKS1 container.
  if as_root && [ "$type" = luks2 ] && command -v cryptsetup >/dev/null; then
    decrypt_to "$work/c.img" "$work/decrypted" >"$out" 2>"$err" || fail "cryptsetup cannot decrypt it, with $form"
    cmp -n "$size" "$work/decrypted" "$work/model" || fail "cryptsetup reads something else, with $form"
  fi
done <<<"$forms"

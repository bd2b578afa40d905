# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# What the guest tests share, on the host: all of mount/lib.sh, and
#   $share      the folder that is /out in the guest, with the program, the key, mount/lib.sh and
#               inside/driver.sh in it
#   run_guest   runs a script of inside/ there: in User-Mode Linux, after require_qemu in QEMU
#   forms       every form of container that there is
. "$(dirname "${BASH_SOURCE[0]}")/../mount/lib.sh"

guest_dir=$root/tests/guest
share=$work/share
mkdir -m 700 "$share"
cp "$CRYPTIMG" "$share/cryptimg"
cp "$root/tests/mount/lib.sh" "$share/lib.sh"
cp "$root/tests/guest/inside/driver.sh" "$share/driver.sh"
cp "$key" "$share/key"

machine=uml.sh
require_guest() { require linux.uml modprobe cryptsetup dmsetup; }
require_qemu() {
  require qemu-system-x86_64 busybox cpio modprobe cryptsetup dmsetup
  "$guest_dir/kernel.sh" >/dev/null || skip "no kernel for QEMU"
  machine=qemu.sh
}

# run_guest NAME: inside/NAME.sh must end with 0 in the guest; else the test fails, and shows all
# the guest has printed.
run_guest() {
  local got=0
  "$guest_dir/$machine" "$guest_dir/inside/$1.sh" "$share" >"$work/console" 2>&1 || got=$?
  tr -d '\r' <"$work/console" >"$work/console.txt"
  [ $got = 0 ] && return
  echo "--- the guest's console"
  cat "$work/console.txt"
  echo "---"
  [ $got != 125 ] || fail "the guest did not finish"
  fail "the guest's script $1.sh ended with $got"
}

# Every type, cipher, key size and sector size, one a line.
forms() {
  local cipher bits sector
  for cipher in aes-xts-plain64 aes-xts-plain aes-cbc-essiv:sha256 aes-cbc-plain64 aes-cbc-plain; do
    for bits in 128 192 256 512; do
      case $cipher-$bits in
        aes-xts-*-128 | aes-xts-*-192 | aes-cbc-*-512) continue ;;
      esac
      echo "luks1 $cipher $bits 512"
      for sector in 512 1024 2048 4096; do echo "luks2 $cipher $bits $sector"; done
    done
  done
}

# A file name that says the form.
name_of() { tr ' :' '--' <<<"$*"; }

# Where the numbers of sectors pass 32 bits, which is where plain and plain64 part: an image that
# is 512 KiB longer than 2^32 sectors of 512 bytes, and where its last MiB begins, in units of 512 KiB.
# shellcheck disable=SC2034  # for the tests
far_size=$(((2 << 40) + (512 << 10)))
# shellcheck disable=SC2034
far_start=$(((2 << 21) - 1))
far_forms() {
  local cipher
  for cipher in aes-xts-plain64 aes-xts-plain aes-cbc-essiv:sha256 aes-cbc-plain64 aes-cbc-plain; do
    echo "luks2 $cipher 256 512"
    echo "luks2 $cipher 256 4096"
  done
}

# Inverts the last byte of a file.
flip_last_byte() {
  local value
  value=$(tail -c 1 "$1" | od -An -tu1)
  printf '%b' "\\x$(printf '%02x' $((value ^ 255)))" |
    dd of="$1" bs=1 seek=$(($(stat -c %s "$1") - 1)) conv=notrunc status=none
}

# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the QEMU guest: containers mounted with the engine afalg on virtio-crypto, and dm-crypt, which is
# software here, as the oracle in both directions. Then the device hangs.
cp /out/cryptimg /tmp/cryptimg
export CRYPTIMG=/tmp/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh
# shellcheck source=tests/guest/inside/driver.sh
. /out/driver.sh

modprobe -a virtio_crypto algif_skcipher || fail "the kernel has no virtio-crypto"
grep -q "^driver *: virtio_crypto_aes_cbc" /proc/crypto || fail "there is no AES device"

check afalg writes aes-cbc-essiv:sha256 256 512
if [ -e /out/soak ]; then
  check afalg writes aes-cbc-essiv:sha256 128 4096
  check afalg writes aes-cbc-plain64 192 2048
  check afalg reads aes-xts-plain64 512 512
  check afalg reads aes-xts-plain 256 1024
fi
check afalg writes aes-cbc-plain64 256 4096
check afalg reads aes-xts-plain64 512 4096

# auto finds it, measures that it is faster, and lets the CPU do a part of it at most.
engine_name=openssl+afalg share_percent=50 check auto reads aes-cbc-plain64 256 512
engine_name=openssl+afalg share_percent=50 check auto reads aes-xts-plain64 512 4096
engines_show_it() {
  "$CRYPTIMG" engines >/out/result
  grep -qE "^\* afalg .*virtio_crypto_aes_cbc" /out/result && grep -qE "^  afalg +read .*from .* on$" /out/result
}
eventually engines_show_it

# One operation of 128 KiB breaks this device (QEMU 7.2): it never ends, nor does any after it. Whoever sends it
# cannot be killed any more, so it is not waited for.
cat >"$work/hang.py" <<'END'
import socket, struct, sys
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
cipher = socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)
cipher.bind(("skcipher", "virtio_crypto_aes_cbc"))
cipher.setsockopt(socket.SOL_ALG, socket.ALG_SET_KEY, bytes(32))
operation, _ = cipher.accept()
for option in SO_SNDBUFFORCE, SO_RCVBUFFORCE:
    operation.setsockopt(socket.SOL_SOCKET, option, 1 << 20)
operation.sendmsg_afalg([bytes(131072)], op=socket.ALG_OP_DECRYPT, iv=bytes(16))
print("sent", flush=True)
operation.recv(131072)
print("answered", flush=True)
END

# reader N: the image again and again, until the device is given up and once more.
reader() {
  local given_up=
  while :; do
    dd if="$mnt/image" of="$work/seen.$1" bs=64K iflag=direct status=none || return 1
    cmp "$work/seen.$1" "$work/second" || return 1
    [ -z "$given_up" ] || return 0
    [ ! -e "$work/given-up" ] || given_up=yes
  done
}
given_up() { grep -q "given up" "$work/log"; }

engine_name=openssl+afalg mount_with auto --log-file "$work/log" --readahead 0
daemon=$(daemon_of)
before=$(driver_bytes)
reader 1 &
readers=$!
reader 2 &
readers="$readers $!"
moved() { [ "$(driver_bytes)" -gt $((before + bytes)) ]; }
eventually moved
python3 "$work/hang.py" >"$work/hang" 2>&1 &
eventually grep -q sent "$work/hang"
eventually given_up
touch "$work/given-up"
for reader in $readers; do wait "$reader" || fail "a reader that was there when the device hung got something else"; done
! grep -q answered "$work/hang" || fail "the device did not hang"

counters=$(status_of "$mnt" '.counters | "\(.driver_fallbacks) \(.driver_quarantines) \(.driver_operations)"')
read -r fallbacks quarantines operations <<<"$counters"
[ "$fallbacks" -ge 1 ] && [ "$quarantines" = 1 ] || fail "the hang is not counted: $counters"
[ "$(grep -c "given up" "$work/log")" = 1 ] || fail "not one line in the log: $(cat "$work/log")"
# It is never tried again, and the CPU writes too.
fill "$work/first" "$mnt/image"
read_image 512K
same "$work/seen" "$work/first"
[ "$(status_of "$mnt" .counters.driver_operations)" = "$operations" ] || fail "the device was tried again"
umount_image
gone "$daemon" || fail "the daemon stays behind"
on_dm_crypt same /dev/mapper/oracle "$work/first"

echo "after the hang: $fallbacks pieces redone by the CPU" >>/out/result

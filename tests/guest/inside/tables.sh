# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# In the QEMU guest: what tests/bench/guest_tables.sh makes its tables of. Each line of /out/figures is one
# run, words with spaces between:
#   engine ENGINE CIPHER SECTOR DIRECTION THREADS BYTES RATE LOAD     (engine_table, in memory)
#   run CIPHER ROW SERVER RATE LOAD OPERATIONS MIB                   (through the mount)
# RATE in bytes a second, LOAD in seconds of CPU a second, OPERATIONS of the device.
cp /out/cryptimg /tmp/cryptimg
export CRYPTIMG=/tmp/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh
# shellcheck disable=SC1091  # written by guest_tables.sh: turns and mib
. /out/settings
modprobe -a virtio_crypto algif_skcipher || fail "the kernel has no virtio-crypto"

cp /out/engine_table /tmp/engine_table
/tmp/engine_table afalg openssl afalg-by-sector >>/out/figures || fail "the engines cannot be measured"

# Ticks of 10 ms that the CPUs were busy.
busy() {
  local user nice system idle wait irq soft
  read -r _ user nice system idle wait irq soft _ </proc/stat
  echo $((user + nice + system + irq + soft))
}
operations() { if [ "$1" = dm-crypt ]; then echo 0; else status_of "$work/$1" .counters.driver_operations; fi; }
target() { if [ "$1" = dm-crypt ]; then echo /dev/mapper/oracle; else echo "$work/$1/image"; fi; }

# run ROW SERVER MIB COMMAND...: COMMAND moves so many MiB, and says what time that took.
run() {
  local row=$1 server=$2 size=$3 begin end ticks before rate
  shift 3
  before=$(operations "$server")
  ticks=$(busy)
  begin=${EPOCHREALTIME/./}
  "$@" >"$work/said" 2>&1 || fail "$row on $server: $(cat "$work/said")"
  end=${EPOCHREALTIME/./}
  ticks=$(($(busy) - ticks))
  # dd's seconds, or the bandwidth in KiB/s of fio's terse form.
  rate=$(awk -F'[ ;]' '/ copied, / { print $1 / $(NF - 3) } /^3;fio/ { print $7 * 1024 }' "$work/said")
  echo "run $cipher $row $server $rate $(awk "BEGIN { print $ticks * 10000 / ($end - $begin) }") $(($(operations "$server") - before)) $size" >>/out/figures
}
read_direct() { run "read-$2" "$1" "$3" dd if="$(target "$1")" of=/dev/null bs="$2" count=$(($3 * 1024 / ${2%k})) iflag=direct; }
write_direct() {
  run "write-$2" "$1" "$3" dd if=/tmp/content of="$(target "$1")" bs="$2" count=$(($3 * 1024 / ${2%k})) oflag=direct conv=notrunc
}
deep_read() {
  run fio-16k-depth-32 "$1" "$2" fio --name=x --filename="$(target "$1")" --rw=read --bs=16k --iodepth=32 \
    --ioengine=libaio --direct=1 --size="$2M" --readonly --minimal
}

# mount_as NAME OPTIONS...
mount_as() {
  mkdir -p "$work/$1"
  mount_image "$work/c.img" "$work/$1" --engine "${@:2}"
}

head -c $((mib << 20)) /dev/urandom >/tmp/content
for form in aes-cbc-essiv:sha256/256/512 aes-xts-plain64/512/4096; do
  IFS=/ read -r cipher bits sector <<<"$form"
  rm -f "$work/c.img"
  make_container "$work/c.img" "${mib}M" --cipher "$cipher" --key-size "$bits" --sector-size "$sector"
  mount_as openssl openssl
  dd if=/tmp/content of="$work/openssl/image" bs=512k conv=notrunc status=none
  umount_image "$work/openssl"
  for turn in $(seq "$turns"); do
    cryptsetup open --key-file "$key" "$work/c.img" oracle
    [ "$turn" != 1 ] || cmp /dev/mapper/oracle /tmp/content || fail "dm-crypt reads something else"
    read_direct dm-crypt 512k "$mib"
    write_direct dm-crypt 512k "$mib"
    cryptsetup close oracle
    # One at a time: read-write mounts exclude each other.
    for server in auto openssl afalg; do
      mount_as $server $server
      for size in 4k 16k 64k; do
        read_direct $server $size $((mib / 4))
        write_direct $server $size $((mib / 4))
      done
      read_direct $server 512k "$mib"
      write_direct $server 512k "$mib"
      [ $server = openssl ] || deep_read $server "$mib"
      umount_image "$work/$server"
    done
    mount_as afalg-by-sector afalg --offload-unit sector --coalesce off
    read_direct afalg-by-sector 512k 4
    write_direct afalg-by-sector 512k 4
    deep_read afalg-by-sector 4
    umount_image "$work/afalg-by-sector"
  done
done
# A word for the eye: what auto was made of.
"$CRYPTIMG" engines >/out/engines

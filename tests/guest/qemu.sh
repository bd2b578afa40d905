#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# As uml.sh, but Debian's kernel in QEMU, by software emulation, with AES hardware in it:
#   qemu.sh SCRIPT OUT_DIR
# The device is virtio-crypto: driver virtio_crypto_aes_cbc, asynchronous, cbc(aes) only. The CPU has no
# AES instructions. So it is like the small boards that have a crypto engine beside a slow CPU.
#
# Everything takes ten to a hundred times as long as outside: figures mean something only as ratios
# within one run. All files of the machine are there by 9p, slowly: what is read often is best copied to
# /tmp, which is memory.
#   GUEST_CPU      QEMU's word for the CPU. By default all it can emulate but AES, and but the promise that
#                  string instructions copy fast (erms): that is so in CPUs, not in the emulation
#   GUEST_MEM      memory in MiB (2048)
#   GUEST_CPUS     number of CPUs (2)
#   GUEST_TIMEOUT  seconds (600); exit 125 as uml.sh
# kernel.sh says where the kernel comes from. Needs the Debian packages qemu-system-x86, busybox-static, cpio
# and kmod.
. "$(dirname "$0")/machine.sh"

kernel=$("$here/kernel.sh") || no_guest "no kernel to boot"

# shellcheck disable=SC2054  # the commas are QEMU's
run_guest qemu-system-x86_64 -accel tcg,thread=multi -cpu "${GUEST_CPU:-max,-aes,-vaes,-erms}" \
  -m "${GUEST_MEM:-2048}" -smp "${GUEST_CPUS:-2}" -nographic -no-reboot -nic none \
  -kernel "$kernel/vmlinuz" -initrd "$kernel/initrd.gz" \
  -append "console=ttyS0 panic=-1 quiet guest_type=9p guest_out=$out guest_modules=$kernel/modules" \
  -object cryptodev-backend-builtin,id=cryptodev0 -device virtio-crypto-pci,cryptodev=cryptodev0 \
  -virtfs local,path=/,mount_tag=guest_root,security_model=none,readonly=on,multidevs=remap \
  -virtfs "local,path=$out,mount_tag=guest_out,security_model=none"

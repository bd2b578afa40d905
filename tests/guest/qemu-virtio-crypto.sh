#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Engine afalg on AES hardware, as QEMU emulates it: what dm-crypt wrote is read and the reverse, by the
# device, and when the device hangs for good under load nothing is lost but speed.
#   CRYPTIMG_SOAK=1   more ciphers, and larger images
. "$(dirname "$0")/lib.sh"
require_qemu
require jq python3
export GUEST_TIMEOUT=800
[ -z "${CRYPTIMG_SOAK:-}" ] || touch "$share/soak"
run_guest qemu-virtio-crypto
cat "$share/result"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# kill -9 in the middle of writes: every sector is afterwards old or new, whole.
. "$(dirname "$0")/lib.sh"
require jq python3
require_fuse

make_container "$work/c.img" 4M --sector-size 512
mount_image "$work/c.img"
python3 - "$mnt/image" <<'PY'
import sys
with open(sys.argv[1], "r+b", buffering=0) as image:
    for sector in range(8192):
        image.write(bytes([65]) * 512)
PY
daemon=$(daemon_of)
(
  while dd if=/dev/zero bs=1M count=4 status=none | tr '\0' B | dd of="$mnt/image" bs=256k iflag=fullblock conv=notrunc status=none; do :; done
) 2>/dev/null &
writer=$!
wrote() { [ "$(status_of "$mnt" .counters.writes)" -gt 40 ]; }
eventually wrote
kill -9 "$daemon"
wait $writer || true
eventually no_daemons
mount_image "$work/c.img" "$mnt" -r
python3 - "$mnt/image" <<'PY' || fail "a torn or garbled sector"
import sys
data = open(sys.argv[1], "rb").read()
good = (b"A" * 512, b"B" * 512)
bad = [n for n in range(len(data) // 512) if data[512 * n:512 * n + 512] not in good]
sys.exit("sectors neither old nor new: %s" % bad[:10] if bad else 0)
PY
umount_image

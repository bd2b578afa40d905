#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The program itself under power cuts: in the guest, dm-log-writes lies under the container's file system,
# takes down every write and flush that reaches the disk, and is replayed to many points; at each the
# kernel's dm-crypt reads what is there. 50 points for each type; with CRYPTIMG_SOAK=1, 300.
#   CRYPTIMG_SEED=N   for the same operations and points again
. "$(dirname "$0")/lib.sh"
require_guest
require mkfs.ext4 python3

seed=${CRYPTIMG_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
cuts=50
[ -z "${CRYPTIMG_SOAK:-}" ] || cuts=300
echo "CRYPTIMG_SEED=$seed"
echo "$seed $cuts" >"$share/wanted"
cp "$guest_dir/inside/power-cut.py" "$share/power-cut.py"
export GUEST_TIMEOUT=$((400 + cuts * 4))
run_guest power-cut
cat "$share/result"
# The guest's own word that everything was done, once for each type.
[ "$(grep -c "^$cuts cuts of a log" "$share/result")" = 2 ] || fail "not all cuts were made"

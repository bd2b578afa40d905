#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The model's checks can fail: one wrong byte is found, in every mode, and the trace made short.
. "$(dirname "$0")/lib.sh"
: "${CRYPTIMG_MODEL:?set CRYPTIMG_MODEL to the cryptimg_model program}"
require_fuse

make_container "$work/c.img" 4M
mount_image "$work/c.img"
model() { expect_exit "$1" timeout -k 10 100 "$CRYPTIMG_MODEL" "$2" "$mnt/image" seed=7 "${@:3}"; }

# The model is wrong about the first change from operation 500 on: what is left is that operation.
model 0 trace operations=1500
model 1 trace operations=1500 spoil=500 shrink=60
grep -q '^FAILED: seed 7, ' "$out" || fail "it does not say the seed: $(cat "$out")"
grep -q '^shrunk to 1 operations ' "$out" || fail "not made short: $(cat "$out")"
sed -n '/^shrunk/,$s/^  //p' "$out" >"$work/trace"
[ "$(wc -l <"$work/trace")" = 1 ] || fail "not one operation is printed: $(cat "$out")"
grep -qE '^5[0-9]{2} (write|map-write|zero|zero-keep) ' "$work/trace" || fail "another operation is printed: $(cat "$out")"
# The printed trace does the same again.
model 1 replay spoil=500 <"$work/trace"
model 0 replay <"$work/trace"

model 0 disjoint operations=2000 threads=2
model 1 disjoint operations=2000 threads=2 spoil=300 shrink=60
grep -q '^shrunk to 1 operations ' "$out" || fail "not made short: $(cat "$out")"

model 0 overlap operations=1000 threads=2
model 1 overlap operations=1000 threads=2 spoil=50
grep -q 'that no write wrote as a whole' "$out" || fail "another reason: $(cat "$out")"
umount_image

# Something else than an image is told from one: a plain file grows, and has holes.
truncate -s 4M "$mnt/image"
model 1 trace operations=3000 shrink=60
lines=$(sed -n 's/^shrunk to \([0-9]*\) operations .*/\1/p' "$out")
[ "${lines:-99}" -le 2 ] || fail "not made short: $(cat "$out")"

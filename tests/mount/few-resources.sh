#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# With too few descriptors or too little address space, mount says just that: exit 4 for the
# former, 3 for the latter, one sentence, never a damaged header, nothing left behind.
. "$(dirname "$0")/lib.sh"
require_fuse
# UBSan takes any object for broken where it cannot make a pipe; ASan needs terabytes of addresses.
if grep -q __asan_init "$CRYPTIMG" || grep -q __tsan_init "$CRYPTIMG"; then
  skip "sanitizers need descriptors and address space of their own"
fi

make_container "$work/c.img" 256K
try_with() {  # try_with ULIMIT-OPTION VALUE
  code=0
  (
    ulimit "$1" "$2"
    exec "$CRYPTIMG" mount --key-file "$key" --workers 4 "$work/c.img" "$mnt"
  ) >"$out" 2>"$err" || code=$?
  if [ $code != 0 ]; then
    [ "$(wc -l <"$err")" = 1 ] || fail "ulimit $1 $2: not one line: $(cat "$err")"
    not_mounted || fail "ulimit $1 $2: mounted in spite of exit $code"
  else
    umount_image
  fi
}

failures=0
for ((files = 5; files < 64; ++files)); do
  try_with -n $files
  [ $code != 0 ] || break
  [ $code = 4 ] || fail "ulimit -n $files: exit $code: $(cat "$err")"
  expect_said "open files"
  failures=$((failures + 1))
done
[ $code = 0 ] || fail "never mounted, with up to 64 descriptors"
[ $failures -gt 0 ] || fail "no limit was too small"

failures=0
for ((kib = 20000; kib < 2000000; kib += kib / 8)); do
  (ulimit -v $kib && "$CRYPTIMG" --version) >/dev/null 2>&1 || continue
  try_with -v $kib
  [ $code != 0 ] || break
  [ $code = 3 ] || fail "ulimit -v $kib: exit $code: $(cat "$err")"
  failures=$((failures + 1))
done
[ $code = 0 ] || fail "never mounted, with up to 2 GB"
[ $failures -gt 0 ] || fail "no limit was too small"

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The harness itself: a script's exit status comes back, only /out is written to, and a guest that
# crashes or hangs is told from one that ends, and leaves no process behind.
. "$(dirname "$0")/lib.sh"
require_guest

boot() { "$guest_dir/uml.sh" "$work/script" "$share"; }
no_guests() { ! grep -qF -- "guest_out=$share" /proc/[0-9]*/cmdline 2>/dev/null; }

outside=/var/tmp/cryptimg-test.${work##*.}
cat >"$work/script" <<END
echo "the guest speaks"
[ "\$(id -u)" = 0 ] && grep -q nodev.*fuse /proc/filesystems && [ -e /dev/mapper/control ] && losetup --find || exit 1
modprobe -a dm-flakey dm-log-writes || exit 2
touch "$outside" && echo "kept" >/out/kept || exit 3
exit 77
END
expect_exit 77 boot
grep -q "the guest speaks" "$out" || fail "what the script prints does not come out"
[ "$(cat "$share/kept")" = kept ] || fail "what is written to /out is lost"
[ ! -e "$outside" ] || fail "the guest wrote to the host"

echo 'exec echo c >/proc/sysrq-trigger' >"$work/script"
expect_exit 125 boot
expect_said "did not finish"
eventually no_guests

echo 'echo started >/out/started; sync; sleep 1000' >"$work/script"
GUEST_TIMEOUT=10 expect_exit 125 boot
expect_said "did not finish"
eventually no_guests

mkdir "$work/a folder"
expect_exit 125 "$guest_dir/uml.sh" "$work/script" "$work/a folder"
expect_said "characters"

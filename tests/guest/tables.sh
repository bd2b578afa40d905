#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# The host's part of tests/bench/guest_tables.sh, which calls it, and is not a test: measures in the QEMU
# guest, and leaves the figures in $from.
. "$(dirname "$0")/lib.sh"
require_qemu
require jq fio
strip -o "$share/cryptimg" "$CRYPTIMG"
strip -o "$share/engine_table" "${ENGINE_TABLE:?}"
echo "turns=${turns:?} mib=${mib:?}" >"$share/settings"
export GUEST_TIMEOUT=3600
run_guest tables
cat "$share/engines"
cp "$share/figures" "${from:?}"

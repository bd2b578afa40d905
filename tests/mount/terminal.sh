#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Nothing that a name, a label, a header or another process's name says reaches a terminal or a log raw:
# every command, its errors and its log, over names with escape sequences, text that changes direction,
# and bytes that are no UTF-8.
. "$(dirname "$0")/lib.sh"
require jq cryptsetup python3
require_fuse

# clean FILE...: one line after the other of valid UTF-8 without controls.
clean() {
  python3 - "$@" <<'PY' || fail "raw bytes in the output of: $last"
import sys
bad = set(range(0x20)) - {10} | set(range(0x7f, 0xa0)) | {0x200e, 0x200f} | set(range(0x2028, 0x202f)) | set(range(0x2066, 0x206a))
for path in sys.argv[1:]:
    text = open(path, "rb").read().decode()
    found = [character for character in text if ord(character) in bad]
    if found:
        sys.exit(f"{path}: {found}")
PY
}
checked=0
run() {  # run EXIT COMMAND...
  last="${*:2}"
  expect_exit "$@"
  clean "$out" "$err"
  cat "$out" "$err" >>"$work/all"
  checked=$((checked + 1))
}

evil=$'a\e[31m\a\r\x7f\xc2\x9b2J\xe2\x80\xaeb\xff\xc0\xaf\nc'
container=$work/$evil.img
dir=$work/dir$evil
mkdir "$dir"

run 0 "$CRYPTIMG" create "$container" --size 256K --key-file "$key" "${cheap[@]}"
run 5 "$CRYPTIMG" create "$container" --size 256K --key-file "$key" "${cheap[@]}"
run 4 "$CRYPTIMG" create "$dir/none/$evil" --size 256K --key-file "$key" "${cheap[@]}"
run 1 "$CRYPTIMG" create "$container" --size "$evil"
run 1 "$CRYPTIMG" create "$container" --size 1M --cipher "$evil" --key-file "$key"
cryptsetup config "$container" --label $'l\e[2J\a' --subsystem $'s\xff\r' || fail "no label"
run 0 "$CRYPTIMG" info "$container"
run 0 "$CRYPTIMG" info --json "$container"
grep -q '\\u001b' "$out" || grep -q 'x1b' "$out" || fail "the label is not shown"
run 0 "$CRYPTIMG" mount --log-file "$work/log" --key-file "$key" "$container" "$dir"
run 5 "$CRYPTIMG" mount --key-file "$key" "$container" "$mnt"
run 0 "$CRYPTIMG" status
run 0 "$CRYPTIMG" status "$container"
run 0 "$CRYPTIMG" status --json
run 4 "$CRYPTIMG" status "$evil"
run 4 "$CRYPTIMG" umount "$evil"

# Another process's name is a name too.
cp "$(command -v sleep)" "$work/"$'s\e[1m\x9b'
"$work/"$'s\e[1m\x9b' 60 <"$dir/image" &
holder=$!
holder_has_name() { grep -qF $'\e[1m' "/proc/$holder/comm"; }
eventually holder_has_name
run 5 "$CRYPTIMG" umount "$dir"
grep -q "process $holder (s.x1b" "$err" || fail "the holder is not named: $(cat "$err")"
kill $holder
wait $holder || true
run 0 "$CRYPTIMG" umount "$dir"
last='the log'
clean "$work/log"

chmod 644 "$key"
cp "$key" "$work/key$evil"
chmod 644 "$work/key$evil"
run 0 "$CRYPTIMG" mount --key-file "$work/key$evil" "$container" "$mnt"
grep -q 'can be read by others' "$err" || fail "no warning of the key file"
run 0 "$CRYPTIMG" umount "$mnt"
run 4 "$CRYPTIMG" mount --key-file "$evil" "$container" "$mnt"
run 4 "$CRYPTIMG" mount --key-file "$key" --header "$evil" "$container" "$mnt"
run 4 "$CRYPTIMG" mount --key-file "$key" --log-file "$dir" "$container" "$mnt"
run 4 "$CRYPTIMG" mount --key-file "$key" "$container" "$evil"
run 4 "$CRYPTIMG" mount --key-file "$key" --uuid "$evil" "$container" "$mnt"
run 1 "$CRYPTIMG" mount -o "$evil" "$container" "$mnt"
run 1 "$CRYPTIMG" mount --engine "$evil" --key-file "$key" "$container" "$mnt" || true
run 1 "$CRYPTIMG" "$evil"
run 1 "$CRYPTIMG" status --json "--$evil"

# What only the header says, in the sentence that refuses it.
for edit in 'encryption="aes\u001b[31m-\u202exts"' 'type="\u009b2J"' 'config.requirements={"mandatory":["\u001b]0;x\u0007"]}'; do
  make_container "$work/c.img" 256K --force
  python3 "$here/../support/fix_segment_size.py" "$work/c.img" "$edit"
  run 4 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
  run 0 "$CRYPTIMG" info "$work/c.img"
  run 0 "$CRYPTIMG" info --json "$work/c.img"
done
[ "$checked" -gt 35 ] || fail "only $checked commands were looked at"
grep -q 'x1b' "$work/all" || fail "nothing was escaped at all"

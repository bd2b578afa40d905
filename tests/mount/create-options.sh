#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# create: defaults, rounding, mode, space, force, and nothing half made left behind.
. "$(dirname "$0")/lib.sh"
require cryptsetup

size_of() { stat -c %s "$1"; }

# Defaults follow type and cipher (only the KDF's cost is made small here).
expect_exit 0 "$CRYPTIMG" create "$work/d.img" --size 1M --key-file "$key" --pbkdf-memory 64 --pbkdf-force-iterations 4
luks_shows "$work/d.img" 'cipher: aes-xts-plain64$'
luks_shows "$work/d.img" 'sector: 4096 '
luks_shows "$work/d.img" 'Key:\s+512 bits'
luks_shows "$work/d.img" 'PBKDF:\s+argon2id'
make_container "$work/cbc.img" 1M --cipher aes-cbc-essiv:sha256
luks_shows "$work/cbc.img" 'Key:\s+256 bits'
make_container "$work/one.img" 1M --type luks1
luks_shows "$work/one.img" 'Version:\s+1'

# Mode 0600 whatever the umask; sparse; the file is the image and the header before it.
(umask 000 && make_container "$work/mode.img" 64M)
[ "$(stat -c %a "$work/mode.img")" = 600 ] || fail "mode $(stat -c %a "$work/mode.img")"
[ "$(du -k "$work/mode.img" | cut -f1)" -lt 32768 ] || fail "not sparse"
offset=$(cryptsetup luksDump "$work/mode.img" | awk '/offset: .*\[bytes\]/ {print $2; exit}')
[ "$(size_of "$work/mode.img")" = $((offset + (64 << 20))) ] || fail "not the size of header and image"
make_container "$work/full.img" 8M --preallocate
[ "$(du -k --apparent-size "$work/full.img" | cut -f1)" -le $(($(du -k "$work/full.img" | cut -f1) + 64)) ] || fail "not preallocated"

# Rounded up to whole sectors, saying so.
make_container "$work/round.img" 1000000
grep -q 1003520 "$out" "$err" || fail "rounding is not mentioned"
make_container "$work/exact.img" 1000448 --sector-size 512
[ ! -s "$err" ] || fail "something said without need: $(cat "$err")"
[ $(($(size_of "$work/round.img") - offset)) = 1003520 ] || fail "not rounded up to whole sectors"

# Label and UUID.
make_container "$work/l.img" 1M --label "a label" --uuid 12345678-1234-1234-1234-123456789abc
luks_shows "$work/l.img" '^Label:\s+a label$'
[ "$(cryptsetup luksUUID "$work/l.img")" = 12345678-1234-1234-1234-123456789abc ] || fail "UUID"

# Nothing is overwritten without --force.
random_file "$work/precious" 4096
before=$(checksum "$work/precious")
expect_error 5 "$CRYPTIMG" create "$work/precious" --size 1M --key-file "$key" "${cheap[@]}"
[ "$(checksum "$work/precious")" = "$before" ] || fail "overwritten"
make_container "$work/precious" 1M --force
cryptsetup isLuks "$work/precious" || fail "--force made no container"

# Illegal values are parameters' errors, and no file appears.
listing=$(ls -A "$work")
for wrong in "--size 0" "--size x" "--size -1" "--size 1M --type luks3" "--size 1M --cipher aes-gcm-random" \
  "--size 1M --cipher serpent-xts-plain64" "--size 1M --key-size 384" "--size 1M --key-size 100" \
  "--size 1M --sector-size 8192" "--size 1M --sector-size 3" "--size 1M --type luks1 --sector-size 4096" \
  "--size 1M --cipher aes-cbc-plain64 --key-size 512" "--size 1M --type luks1 --label x" "--size 1M --uuid x" \
  "--size 99999999999999T" "--size 1M --nonsense" ""; do
  # shellcheck disable=SC2086  # meant to be split
  expect_error 1 "$CRYPTIMG" create "$work/no.img" --key-file "$key" "${cheap[@]}" $wrong
done
# The number that is too large is answered by the largest there is.
for number in "--pbkdf-memory 99999999999 4194304" "--iter-time 99999999999 2147483647"; do
  read -r option value most <<<"$number"
  expect_error 1 "$CRYPTIMG" create "$work/no.img" --size 1M --key-file "$key" "$option" "$value"
  expect_said "$option"
  expect_said "$most"
done
# The key file is not what is to be overwritten, under any name, however it is read.
cp -p "$key" "$work/only"
ln "$work/only" "$work/hard"
listing=$(ls -A "$work")
before=$(checksum "$work/only")
for line in "only --key-file $work/only" "hard --key-file $work/only" "only --key-file -" \
  "no.img --header $work/only --key-file $work/hard"; do
  # shellcheck disable=SC2086  # meant to be split
  expect_error 1 "$CRYPTIMG" create --force --size 1M "${cheap[@]}" "$work/"$line <"$work/only"
  expect_said "key file"
done
[ "$(checksum "$work/only")" = "$before" ] || fail "the key file was overwritten"
# A size that no file can have is an error and nothing before it.
expect_exit 0 truncate -s 1M "$work/probe"
if ! truncate -s 999T "$work/probe" 2>/dev/null; then
  expect_error 4 "$CRYPTIMG" create "$work/no.img" --size 999T --key-file "$key" "${cheap[@]}"
fi
rm "$work/probe"
expect_error 4 "$CRYPTIMG" create "$work/absent/c.img" --size 1M --key-file "$key" "${cheap[@]}"
expect_error 4 "$CRYPTIMG" create "$work/c.img" --size 1M --key-file "$work/absent" "${cheap[@]}"
[ "$(ls -A "$work")" = "$listing" ] || fail "something was left behind"

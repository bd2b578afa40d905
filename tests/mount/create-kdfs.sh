#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Each KDF with its parameters, as asked for.
. "$(dirname "$0")/lib.sh"
require cryptsetup

make() { rm -f "$work/c.img"; expect_exit 0 "$CRYPTIMG" create "$work/c.img" --size 256K --key-file "$key" "$@"; }
shows() { luks_shows "$work/c.img" "$1"; }
for kdf in argon2id argon2i; do
  make --pbkdf $kdf --pbkdf-memory 64 --pbkdf-parallel 2 --pbkdf-force-iterations 5
  shows "PBKDF:\s+$kdf"
  shows 'Time cost:\s+5'
  shows 'Memory:\s+64'
  shows 'Threads:\s+2'
  cryptsetup open --test-passphrase --key-file "$key" "$work/c.img"
done
make --pbkdf pbkdf2 --pbkdf-force-iterations 1234
shows 'Iterations:\s+1234'
make --type luks1 --pbkdf-force-iterations 2000
shows 'Iterations:\s+2000'

refused() { expect_error 1 "$CRYPTIMG" create "$work/no.img" --size 256K --key-file "$key" "$@"; [ ! -e "$work/no.img" ] || fail "made all the same: $*"; }
refused --type luks1 --pbkdf argon2id
refused --pbkdf scrypt
refused --pbkdf pbkdf2 --pbkdf-memory 64
refused --pbkdf-force-iterations 1

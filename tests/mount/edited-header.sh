#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Someone who can write to the file, without the key, edits the segment in the header (checksums
# valid): what contradicts the device, or is not served, is refused; nothing crashes or hangs.
. "$(dirname "$0")/lib.sh"
require python3

edited() {  # edited EXIT KEY=VALUE...
  rm -f "$work/c.img"
  make_container "$work/c.img" 4M
  python3 "$here/../support/fix_segment_size.py" "$work/c.img" "${@:2}"
  local before
  before=$(checksum "$work/c.img")
  expect_error "$1" "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
  not_mounted || fail "mounted with ${*:2}"
  [ "$(checksum "$work/c.img")" = "$before" ] || fail "refusing changed the container (${*:2})"
}

edited 4 'size="18446744073709551104"'
edited 4 'size="9223372036854775807"'
edited 4 'size="0"'
edited 4 'size="4097"'
edited 4 'offset="18446744073709547520"'
edited 4 'offset="99999999999999"'
edited 4 'offset="4096"' 'size="4096"'
edited 4 'sector_size=8192'
edited 4 'sector_size=0'
edited 4 'encryption="null"'
edited 4 'encryption="cipher_null-ecb"'
edited 4 'encryption="aes-xts-essiv:sha256"'
edited 4 'encryption="aes"'
edited 4 'iv_tweak="8"'
edited 4 'type="linear"'
edited 4 'integrity={"type":"hmac(sha256)","journal_encryption":"none","journal_integrity":"none"}'
edited 4 'flags=["backup-final"]'

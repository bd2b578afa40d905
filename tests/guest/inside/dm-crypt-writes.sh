# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# Writes /out/plain, 1 MiB, into each container of /out/wanted by dm-crypt, from start (in units of
# 512 KiB). A process costs much here, so few are used.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh

while read -r name _ start; do
  cryptsetup open --key-file /out/key "/out/$name" oracle || fail "dm-crypt does not open $name"
  dd if=/out/plain of=/dev/mapper/oracle bs=512K seek="$start" conv=notrunc,fsync status=none
  dmsetup remove oracle
done </out/wanted

# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# Writes to /out/seen what dm-crypt reads of the containers of /out/expected: name, start, the size
# of the device and the checksum of 1 MiB from start.
export CRYPTIMG=/out/cryptimg
# shellcheck source=tests/mount/lib.sh
. /out/lib.sh

# A process costs much here, so few are used: a device that is read from its start is 1 MiB long.
content() { if [ "$1" = 0 ]; then cat; else dd bs=512K skip="$1" count=2 status=none; fi </dev/mapper/oracle; }

while read -r name start _; do
  cryptsetup open --readonly --key-file /out/key "/out/$name" oracle || fail "dm-crypt does not open $name"
  read -r sectors </sys/block/dm-0/size
  sum=$(content "$start" | sha256sum)
  dmsetup remove oracle
  echo "$name $start $((sectors * 512)) ${sum%% *}" >>/out/seen
done </out/expected

#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# What happens to the container while it is mounted: truncated, it gives EIO for what is gone, serves the
# rest, never grows again, and the log says it; renamed, replaced, unlinked or made read-only, nothing
# changes for whoever has it mounted. umount works each time.
. "$(dirname "$0")/lib.sh"
require jq
require_fuse

c=$work/c.img
make_container "$c" 4M
random_file "$work/plain" $((4 << 20))
mount_image "$c"
dd if="$work/plain" of="$mnt/image" bs=1M conv=fsync status=none
umount_image
cp --sparse=always "$c" "$work/good.img"
full=$(stat -c %s "$c")

# read_at MIB, write_at MIB: of 4 KiB there.
read_at() { dd if="$mnt/image" of="$work/found" bs=4k skip=$(($1 * 256)) count=1 iflag=direct status=none; }
write_at() { dd if="$work/plain" of="$mnt/image" bs=4k skip=$(($1 * 256)) seek=$(($1 * 256)) count=1 oflag=direct conv=notrunc status=none; }
is_eio() {
  expect_exit 1 "$@"
  grep -q "Input/output error" "$err" || fail "not EIO: $(cat "$err")"
}
# What is read ahead is served for a tick of the kernel's clock after that, at most 10 milliseconds.
shorten() { truncate -s "$1" "$c" && sleep 0.05; }
count_in_log() { grep -c "$1" "$work/log" || true; }

# What was deciphered ahead of a reader who then stopped is not served once the container is cut.
read_some() {
  dd if="$mnt/image" of=/dev/null bs=64k count=16 iflag=direct status=none
  [ "$(status_of "$mnt" '.counters.filled_bytes - .counters.ahead_bytes')" -gt 0 ]
}
for try in 1 2 3; do
  cp --sparse=always "$work/good.img" "$c"
  mount_image "$c"
  eventually read_some
  shorten $((full - (3 << 20)))
  is_eio read_at 1
  is_eio read_at 2
  umount_image
done

# Truncated in the middle, inside a sector, to where the data begins, and to nothing.
for keep in $((full - (2 << 20))) $((full - (2 << 20) + 1000)) $((full - (4 << 20))) 0; do
  cp --sparse=always "$work/good.img" "$c"
  rm -f "$work/log"
  mount_image "$c" "$mnt" --log-file "$work/log"
  daemon=$(daemon_of)
  # Read before, so that whatever is cached or mapped has seen it.
  cat "$mnt/image" >/dev/null
  dd if="$mnt/image" of=/dev/null bs=1M iflag=direct status=none
  shorten "$keep"
  began=$SECONDS
  for try in 1 2 3 4 5; do
    is_eio read_at 3
    is_eio write_at 3
  done
  if [ "$keep" -gt $((full - (4 << 20))) ]; then
    expect_exit 0 read_at 1
    cmp -n 4096 "$work/found" "$work/plain" -i 0:$((1 << 20)) || fail "what is left reads differently"
    expect_exit 0 write_at 1
    # The sector that is cut is gone as a whole, its neighbour before is not.
    expect_exit 0 dd if="$mnt/image" of=/dev/null bs=4k skip=511 count=1 iflag=direct
    is_eio dd if="$mnt/image" of=/dev/null bs=4k skip=512 count=1 iflag=direct
    # A request across the edge fails as one.
    is_eio dd if="$mnt/image" of=/dev/null bs=64k iflag=direct,skip_bytes skip=$(((2 << 20) - 32768)) count=1
  else
    is_eio read_at 0
  fi
  [ "$(stat -c %s "$c")" = "$keep" ] || fail "writing made the container $(stat -c %s "$c") bytes long again"
  [ "$(daemon_of)" = "$daemon" ] || fail "the daemon is another"
  for what in "read failed" "write failed"; do
    n=$(count_in_log "$what")
    [ "$n" -ge 1 ] || fail "the log says nothing of: $what"
    # Once a second at most, however long all this has taken.
    [ "$n" -le $((SECONDS - began + 2)) ] || fail "the log is spammed: $n times $what"
  done
  umount_image
  gone "$daemon" || fail "the daemon outlived umount"
done

# Truncated under a reader of the shared mapping and one of the page cache: EIO or SIGBUS there, not here.
cp --sparse=always "$work/good.img" "$c"
mount_image "$c"
daemon=$(daemon_of)
for i in 1 2 3 4 5 6; do
  (while :; do dd if="$mnt/image" of=/dev/null bs=$((i * 37000)) iflag=direct,nonblock status=none || true; done) 2>/dev/null &
  readers[i]=$!
done
for keep in $((full - 1000000)) $((full - 3000000)) "$full" $((full - 2000000)) "$full"; do
  truncate -s "$keep" "$c"
  sleep 0.1
done
kill "${readers[@]}"
wait "${readers[@]}" 2>/dev/null || true
[ "$(daemon_of)" = "$daemon" ] || fail "the daemon is another"
cmp -n 1000000 "$mnt/image" "$work/plain" || fail "what was never cut reads differently"
quiet() { "$CRYPTIMG" umount "$mnt"; }
eventually quiet
not_mounted || fail "still mounted"

# Renamed, replaced, unlinked, read-only.
for how in renamed replaced unlinked read-only; do
  rm -f "$c" "$work/other"
  cp --sparse=always "$work/good.img" "$c"
  exec 8<"$c"
  mount_image "$c"
  daemon=$(daemon_of)
  case $how in
    renamed) mv "$c" "$work/other" ;;
    replaced) random_file "$work/other" "$full" && mv "$work/other" "$c" && sum=$(checksum "$c") ;;
    unlinked) rm "$c" ;;
    read-only) chmod 400 "$c" ;;
  esac
  expect_exit 0 read_at 3
  random_file "$work/new" 4096
  dd if="$work/new" of="$mnt/image" bs=4k seek=768 oflag=direct conv=notrunc,fsync status=none || fail "$how: cannot write"
  umount_image
  gone "$daemon" || fail "$how: the daemon outlived umount"
  # It went to the file that was mounted, and nowhere else.
  [ $how != replaced ] || [ "$(checksum "$c")" = "$sum" ] || fail "the file that took the name was written to"
  cat <&8 >"$work/then.img"
  exec 8<&-
  mount_image "$work/then.img" "$mnt" -r
  cmp -n 4096 -i $((3 << 20)):0 "$mnt/image" "$work/new" || fail "$how: what was written is not there"
  cmp -n $((3 << 20)) "$mnt/image" "$work/plain" || fail "$how: other data changed"
  umount_image
done

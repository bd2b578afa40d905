#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Who may ask and change a running daemon: the mount's owner and root, by the kernel's word for who is at
# the other end; not anybody else, by the commands or by the socket itself. And what they may change.
. "$(dirname "$0")/lib.sh"
require jq python3 setpriv
require_root
require_fuse

make_container "$work/c.img" 4M
mount_image "$work/c.img"
device=$(status_of "$mnt" .device)
cat >"$work/ask.py" <<'PYTHON'
import os, re, socket, sys
if sys.argv[1] == "stranger":
    del sys.argv[1]
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
names = set(re.findall(r" @(cryptimg-%s-[0-9a-f]+)" % sys.argv[1].replace(":", "-"), open("/proc/net/unix").read()))
assert len(names) == 1, names
with socket.socket(socket.AF_UNIX) as client:
    client.settimeout(10)
    client.connect("\0" + names.pop())
    answer = b""
    try:
        for line in sys.argv[2:]:
            client.sendall(line.encode() + b"\n")
            answer = client.recv(65536)
    except (BrokenPipeError, ConnectionResetError):
        answer = b""
print(answer.decode(), end="")
PYTHON
chmod 755 "$work"
stranger() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
ask() { python3 "$work/ask.py" "$device" "$@"; }
stranger test -x "$CRYPTIMG" || { cp "$CRYPTIMG" "$work/cryptimg" && CRYPTIMG=$work/cryptimg; }

# A stranger is not even heard.
for request in '{"command":"status"}' '{"command":"set","max_read_size":4096}' '{"command":"lock","hold":true}' \
  '{"command":"unlock"}' '{"command":"wait-end"}'; do
  answer=$(python3 "$work/ask.py" stranger "$device" "$request")
  [ -z "$answer" ] || fail "a stranger's $request is answered: $answer"
done
expect_error 4 stranger "$CRYPTIMG" lock "$mnt"
expect_said "only the mount's owner and root"
expect_error 4 stranger "$CRYPTIMG" unlock --key-file /dev/null "$mnt"
expect_said "only the mount's owner and root"
expect_exit 4 stranger "$CRYPTIMG" umount "$mnt"
stranger "$CRYPTIMG" status --json "$mnt" | jq -e '.mounts[0] | .state == "unknown" and (has("pid") | not)' >/dev/null ||
  fail "a stranger's status says more than the mount table"
[ "$(status_of "$mnt" '.locked + " " + (.max_read_size | tostring)')" = "no 1048576" ] || fail "a stranger changed something"

# Owner and root change the two sizes, and nothing else.
[ "$(ask '{"command":"set","max_read_size":65536,"max_write_size":1000,"workers":9,"read_only":true}')" = \
  '{"max_read_size":65536,"max_write_size":4096}' ] || fail "set: $(ask '{"command":"status"}')"
[ "$(status_of "$mnt" '[.max_read_size, .max_write_size, .read_only] | tostring')" = '[65536,4096,false]' ] || fail "not set"
for request in '{"command":"set","max_read_size":-1}' '{"command":"set","max_read_size":"1"}' '{"command":"stop"}' 'lock'; do
  ask "$request" | jq -e 'has("error")' >/dev/null || fail "no error: $request"
done
# A key for what is not locked changes nothing; nor does one of which less comes than was asked for.
[ "$(ask '{"command":"unlock"}' "$(printf '%063d' 0)" | jq -r .error)" = "it is not locked" ] || fail "a key is taken"
expect_exit 0 "$CRYPTIMG" lock "$mnt"
[ "$(ask '{"command":"unlock"}')" = '{"send_key":64}' ] || fail "no key asked for"
[ "$(ask '{"command":"unlock"}' "$(printf '%063d' 0)" | jq -r .exit_code)" = 2 ] || fail "a wrong key is not told"
[ "$(status_of "$mnt" .locked)" = fail ] || fail "not locked any more"
umount_image

# A key file that others can read is warned of, and used.
chmod 640 "$key"
expect_exit 0 "$CRYPTIMG" mount --key-file "$key" "$work/c.img" "$mnt"
expect_said "can be read by others than its owner"
expect_exit 0 "$CRYPTIMG" lock "$mnt"
expect_exit 0 "$CRYPTIMG" unlock --key-file "$key" "$mnt"
expect_said "can be read by others than its owner"
umount_image

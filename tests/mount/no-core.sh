#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# A daemon that is made to crash leaves no core file, also where root lifts its limit meanwhile; another
# program, crashed in the same way, does.
. "$(dirname "$0")/lib.sh"
require jq python3 prlimit
require_root
require_fuse

# crash PID-FILE COMMAND...: starts it, waits for the pid in the file, raises its limit and kills it by
# SIGSEGV. Prints how it ended.
cat >"$work/crash.py" <<'PYTHON'
import os, signal, subprocess, sys, time
ready, command = sys.argv[1], sys.argv[2:]
child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
for _ in range(400):
    if subprocess.run(ready, shell=True, stdout=subprocess.DEVNULL).returncode == 0:
        break
    time.sleep(0.05)
else:
    sys.exit("it does not start")
# Root of a container may not raise it.
subprocess.run(["prlimit", "--core=unlimited", "--pid", str(child.pid)], stderr=subprocess.DEVNULL)
os.kill(child.pid, signal.SIGSEGV)
_, status = os.waitpid(child.pid, 0)
print(os.WTERMSIG(status), os.WCOREDUMP(status))
PYTHON

mkdir "$work/dump"
cd "$work/dump"
[ "$(python3 "$work/crash.py" true sleep 60)" = "11 True" ] || skip "no core files are written here"
rm -f "$work/dump"/*
make_container "$work/c.img" 4M
[ "$(python3 "$work/crash.py" "mountpoint -q '$mnt' && '$CRYPTIMG' status --json '$mnt' | jq -e '.mounts[0].pid'" \
  "$CRYPTIMG" mount -f --key-file "$key" "$work/c.img" "$mnt")" = "11 False" ] || fail "it was dumped, or did not crash"
[ -z "$(ls -A "$work/dump")" ] || fail "a core file: $(ls "$work/dump")"
eventually not_mounted

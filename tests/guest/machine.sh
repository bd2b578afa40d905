# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# What the programs that boot a guest (uml.sh, qemu.sh) share. They source it first, with SCRIPT and
# OUT_DIR as their arguments; it gives them
#   $out           OUT_DIR, with the script and the guest's first process (init.sh) in it
#   no_guest WHY   exit 125
#   run_guest CMD  runs the machine for at most GUEST_TIMEOUT seconds, and ends with the script's exit status
set -euo pipefail

no_guest() {
  echo "${0##*/}: $*" >&2
  exit 125
}

[ $# = 2 ] || no_guest "usage: ${0##*/} SCRIPT OUT_DIR"
here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "$2" && pwd -P)
# The name goes through a kernel command line and mount options.
[[ $out =~ ^[A-Za-z0-9/._+-]+$ ]] || no_guest "the name of the folder $out has characters that a guest cannot take"

cp "$here/init.sh" "$out/.init"
cp "$1" "$out/.script"
chmod 755 "$out/.init"
rm -f "$out/.status"

run_guest() {
  local status
  timeout -k 5 "${GUEST_TIMEOUT:-600}" "$@" </dev/null &
  guest=$!
  trap 'kill $guest 2>/dev/null || true' EXIT
  trap 'exit 143' TERM INT HUP
  wait $guest || true
  trap - EXIT
  rm -rf "$out/.uml"
  status=$(cat "$out/.status" 2>/dev/null) || no_guest "the guest did not finish"
  [[ $status =~ ^[0-9]+$ ]] || no_guest "the guest did not finish"
  exit "$status"
}

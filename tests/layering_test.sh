#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-3.0-or-later
#
# Dependencies point inwards (docs/architecture.md): by the include lines.
set -u
cd "$(dirname "$0")/.." || exit 1
code=0
forbid() {  # forbid REASON PATTERN FILES...
  local found
  found=$(grep -nE "^ *# *include *$2" "${@:3}" 2>/dev/null) || return 0
  echo "$1:"
  echo "$found"
  code=1
}
shopt -s nullglob
core=(core/*.h core/*.cc)
engines=(engines/*.h engines/*.cc)
fuse=(fuse/*.h fuse/*.cc)
[ ${#core[@]} -gt 0 ] && [ ${#engines[@]} -gt 0 ] && [ ${#fuse[@]} -gt 0 ] || { echo "no sources found"; exit 1; }

forbid "core/ looks outward" '"(engines|fuse|tests)/' "${core[@]}"
forbid "core/ knows libfuse or an engine library" '[<"](fuse|fuse3|openssl|linux/if_alg)[/.]' "${core[@]}"
forbid "engines/ looks at the edge" '"(fuse|tests)/' "${engines[@]}"
forbid "engines/ includes more of core/ than the contract" '"core/(block_device|buffer_pool|container|encrypted_image|range_lock|worker_pool)' "${engines[@]}"
forbid "the edge reaches past engines/engines.h" '"(engines/([^e]|e[^n]|en[^g]|engine[^s])|tests/)' "${fuse[@]}"
forbid "a header drags in a costly library" '<(CLI|nlohmann|spdlog)/' "${core[@]%%*.cc}" "${engines[@]%%*.cc}" "${fuse[@]%%*.cc}"
# Costly headers stay in few files.
for costly in CLI nlohmann; do
  count=$(grep -lE "^#include <$costly/" "${core[@]}" "${engines[@]}" "${fuse[@]}" | wc -l)
  limit=3
  [ $costly = nlohmann ] && limit=9
  if [ "$count" -gt $limit ]; then
    echo "<$costly/...> is included in $count files, more than $limit"
    code=1
  fi
done
exit $code

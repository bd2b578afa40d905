# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=bash
#
# bash completion for cryptimg(1)

_cryptimg() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]}
  local words=
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    words='create mount umount lock unlock status info engines --help --version'
  else
    case $previous in
      --type) words='luks2 luks1' ;;
      --cipher | -c | --require-cipher) words='aes-xts-plain64 aes-xts-plain aes-cbc-essiv:sha256 aes-cbc-plain64 aes-cbc-plain' ;;
      --key-size) words='128 192 256 512' ;;
      --sector-size) words='512 1024 2048 4096' ;;
      --pbkdf) words='argon2id argon2i pbkdf2' ;;
      --coalesce) words='on off' ;;
      --backing-io) words='mapped buffered' ;;
      --log-level) words='trace debug info warning error critical off' ;;
      --offload-unit) words='extent sector' ;;
      --engine)
        words="auto $(cryptimg --version 2>/dev/null | sed -n 's/^engines: *//p')"
        ;;
      -o) words='ro rw allow_other allow_root default_permissions uid= gid= umask=' ;;
      --size | -s | --pbkdf-memory | --pbkdf-parallel | --pbkdf-force-iterations | --iter-time | -i | --label | \
        --uuid | --key-slot | -S | --workers | --max-read-size | --max-write-size | --max-extent | --readahead)
        return 0
        ;;
      --key-file | -d | --header | --from | --log-file) ;;
      *)
        if [[ $current == -* ]]; then
          case $command in
            create)
              words='--size --type --cipher --key-size --sector-size --pbkdf --pbkdf-memory --pbkdf-parallel
                --pbkdf-force-iterations --iter-time --key-file --header --label --uuid --from --preallocate --force'
              ;;
            mount)
              words='--readonly --key-file --header --key-slot --require-cipher --uuid --allow-costly-kdf --engine
                --offload-unit --workers --max-read-size --max-write-size --coalesce --max-extent --readahead --backing-io
                --foreground --no-sandbox --log-file --log-level -o'
              ;;
            umount) words='--lazy' ;;
            lock) words='--hold' ;;
            unlock) words='--key-file --key-slot --header --allow-costly-kdf' ;;
            status | engines) words='--json' ;;
            info) words='--json --header' ;;
          esac
          words="$words --help"
        elif [[ $command == umount || $command == status || $command == lock || $command == unlock ]]; then
          local mountpoint
          while read -r mountpoint; do
            mountpoint=$(printf '%b' "${mountpoint//\\/\\0}")
            [[ $mountpoint == "$current"* ]] && COMPREPLY+=("$mountpoint")
          done < <(awk '/ - fuse\.cryptimg / {print $5}' /proc/self/mountinfo)
        fi
        ;;
    esac
  fi
  if [ -n "$words" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
    [[ ${COMPREPLY[0]} == *= ]] && compopt -o nospace
  else
    compopt -o default -o filenames
  fi
}

complete -F _cryptimg cryptimg

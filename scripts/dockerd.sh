#!/usr/bin/env bash
# A Docker daemon of its own for as long as a command runs, with one image that is made of programs of this machine:
#   scripts/dockerd.sh vitest run --no-file-parallelism docker
# The command finds HOMARD_DOCKER_SOCKET and HOMARD_DOCKER_IMAGE in its environment. Without a command both are printed,
# and the daemon stays until this script is interrupted. Needs root (or sudo) and dockerd; no registry, no other daemon.
set -euo pipefail

PROGRAMS=(
  bash sh base64 basename cat chmod chown chroot cmp comm cp cut date dd df diff dirname du echo env expr false find
  grep gzip head id jq kill ln ls md5sum mkdir mkfifo mknod mktemp mount mv nice nohup nproc od paste printf ps pwd
  python3 readlink realpath rm rmdir sed seq setpriv setsid sha256sum sleep sort split stat su sync tail tar tee timeout
  touch tr true truncate umount uname uniq unshare wc which xargs yes
)

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
dockerd="$(PATH="$PATH:/usr/sbin" command -v dockerd)" || {
  echo 'dockerd is not installed: apt-get install --no-install-recommends docker.io' >&2
  exit 1
}
# Short: the path of a socket has at most 107 characters.
dir="$(mktemp -d /tmp/homard-dockerd.XXXXXX)"
socket="$dir/docker.sock"

# Whatever the daemon started names this folder in its arguments.
ours() {
  local cmdline
  for cmdline in /proc/[0-9]*/cmdline; do
    local pid="${cmdline#/proc/}"
    pid="${pid%/cmdline}"
    [ "$pid" -ne $$ ] && tr '\0' ' ' 2>/dev/null <"$cmdline" | grep -qF -- "$dir/" && echo "$pid"
  done
  return 0
}

stop() {
  local pids pid
  # By its pid the daemon ends what it started, in order; what is left then did not listen.
  [ ! -f "$dir/docker.pid" ] || "${as_root[@]}" kill "$(cat "$dir/docker.pid")" 2>/dev/null || true
  for _ in $(seq 150); do
    pids="$(ours)"
    [ -n "$pids" ] || break
    sleep 0.1
  done
  for pid in $pids; do "${as_root[@]}" kill -KILL "$pid" 2>/dev/null || true; done
  awk -v dir="$dir/" 'index($2, dir) == 1 { print $2 }' /proc/mounts | sort -r |
    while read -r mounted; do "${as_root[@]}" umount -l "$mounted" || true; done
  "${as_root[@]}" rm -rf --one-file-system "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

start() {
  local driver
  echo '{}' >"$dir/daemon.json"
  for driver in overlay2 vfs; do
    "${as_root[@]}" "$dockerd" --config-file "$dir/daemon.json" --host "unix://$socket" --group "$(id -g)" \
      --pidfile "$dir/docker.pid" --data-root "$dir/data" --exec-root "$dir/exec" --storage-driver "$driver" \
      --bridge=none --iptables=false >"$dir/dockerd.log" 2>&1 &
    local pid=$!
    for _ in $(seq 300); do
      [ "$(curl --silent --max-time 2 --unix-socket "$socket" http://docker/_ping)" != OK ] || return 0
      [ -d "/proc/$pid" ] || break
      sleep 0.1
    done
    "${as_root[@]}" kill "$pid" 2>/dev/null || true
    wait "$pid" || true
  done
  tail -20 "$dir/dockerd.log" >&2
  return 1
}

# Path by path, without the leading "/" and with links in folders resolved: programs, their libraries, Python's own library.
contents() {
  local program path python
  local files=()
  for program in "${PROGRAMS[@]}"; do
    path="$(PATH=/usr/bin:/bin:/usr/sbin:/sbin type -P "$program")" && files+=("$path")
  done
  if python="$(readlink -f /usr/bin/python3)" && [ -x "$python" ]; then
    files+=("$python")
    echo "usr/lib/$(basename "$python")"
    mapfile -t -O "${#files[@]}" files < <(find "/usr/lib/$(basename "$python")/lib-dynload" -name '*.so')
  fi
  { printf '%s\n' "${files[@]}" && ldd "${files[@]}" 2>/dev/null | grep -o '/[^ ]*' | grep -v ':$'; } | sort -u |
    while read -r path; do echo "$(readlink -f "$(dirname "$path")")/$(basename "$path")"; done | sort -u | cut -c2-
}

import() {
  local root="$dir/root" name
  mkdir -p "$root"/{dev,etc,proc,sys,tmp,usr/bin,usr/lib,usr/lib64,usr/sbin,workspace}
  for name in bin lib lib64 sbin; do ln -s "usr/$name" "$root/$name"; done
  printf 'root:x:0:0::/root:/bin/sh\nsandbox:x:64000:64000::/workspace:/bin/bash\n' >"$root/etc/passwd"
  printf 'root:x:0:\nsandbox:x:64000:\n' >"$root/etc/group"
  (cd / && contents | xargs cp --recursive --dereference --preserve=mode --parents --target-directory "$root")
  rm -rf "$root"/usr/lib/python3*/{config-*,ensurepip,idlelib,lib2to3,test}
  tar --create --owner=0 --group=0 --directory "$root" . |
    curl --silent --show-error --fail --max-time 60 --unix-socket "$socket" --upload-file - --request POST \
      'http://docker/images/create?fromSrc=-&repo=homard-test' | grep -o 'sha256:[0-9a-f]*' | tail -1
  rm -rf "$root"
}

start
HOMARD_DOCKER_IMAGE="$(import)"
export HOMARD_DOCKER_SOCKET="$socket" HOMARD_DOCKER_IMAGE
if [ $# -gt 0 ]; then
  "$@"
else
  printf '%s\n' "HOMARD_DOCKER_SOCKET=$socket" "HOMARD_DOCKER_IMAGE=$HOMARD_DOCKER_IMAGE"
  while sleep 1; do :; done
fi

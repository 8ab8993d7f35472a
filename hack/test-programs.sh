#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Names the programs that tests need beyond Go, git and make and that are missing, and the Debian package of each. With
# --packages, prints only the names of these packages. A last argument names other programs than those of the tests with
# databases and browsers: race for the race detector alone, node for a node that runs containers.

set -euo pipefail

PATH="$PATH:/usr/sbin"
packages=()

# need PROGRAM PACKAGE REASON
need() {
  compgen -G "$1" >/dev/null || command -v "$1" >/dev/null && return
  read -ra names <<<"$2"
  packages+=("${names[@]}")
  [[ "$option" == --packages ]] || echo "$1 is missing: $3; Debian has it in $2" >&2
}

option="${1:-}"
[[ $# -gt 0 ]] || set -- all
part="${!#}"
[[ "$part" == node ]] || need "$(go env CC)" 'gcc libc6-dev' 'the race detector needs a C compiler'
if [[ "$part" == node ]]; then
  need containerd containerd 'a node runs containers'
  need runc runc 'a node runs containers'
  need /usr/lib/cni/bridge containernetworking-plugins 'a node connects pods'
  need nft nftables 'kube-proxy writes the rules of Services'
  need ip iproute2 'a node has a network of its own'
  need apt-get apt 'the images of a node are made of Debian packages'
fi
if [[ "$part" != race && "$part" != node ]]; then
  need '/usr/lib/postgresql/*/bin/initdb' postgresql 'the scripts of PostgreSQL and Backup run with real servers'
  need mariadbd mariadb-server 'the scripts of Backup run with a real server'
  need rclone rclone 'the scripts of Backup copy dumps'
  need nft nftables 'an address of PostgreSQL falls silent'
  need ip iproute2 'an address of PostgreSQL falls silent'
  need chromium chromium 'the page of kubectl demoapp ui is tested in a browser'
  need npm npm 'the rules of accessibility come from the package axe-core of npm'
  need curl curl 'docs/production.md sends requests'
fi

if [[ "$option" == --packages ]]; then
  ((${#packages[@]} == 0)) || printf '%s\n' "${packages[@]}"
elif ((${#packages[@]} > 0)); then
  echo "install what is missing: apt-get install ${packages[*]}" >&2
  exit 1
fi
if [[ "$part" == node && "$option" != --packages && ("$(uname)" != Linux || "$(id -u)" -ne 0) ]]; then
  echo "a node that runs containers needs Linux and root" >&2
  exit 1
fi

#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Writes the module files of a version of Kubernetes, such as 1.33.13, from which localcluster builds a control plane. The files
# of the same minor version are replaced.

set -euo pipefail

[[ "${1:-}" =~ ^1\.[0-9]+\.[0-9]+$ ]] || { echo "usage: $0 1.MINOR.PATCH" >&2; exit 1; }
version=$1
minor=${version%.*}

cd "$(dirname "${BASH_SOURCE[0]}")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOWORK=off

of_kubernetes=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/^.*"GoMod": "\(.*\)",$/\1/p')
{
  echo 'module github.com/example/demoapp-controller/hack/localcluster/kubernetes'
  # Kubernetes was built with the behavior of this version of Go.
  sed -n '/^go /p' "$of_kubernetes"
  echo "require k8s.io/kubernetes v$version"
  # The modules that Kubernetes has in its own tree are published with the same minor version and patch.
  sed -nE "s|^\s*(k8s.io/[a-z-]+) => ./staging/.*|replace \1 => \1 v0.${version#1.}|p" "$of_kubernetes"
} >"$work/go.mod"
{
  echo 'package kubernetes'
  for program in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
    echo "import _ \"k8s.io/kubernetes/cmd/$program\""
  done
} >"$work/programs.go"
go -C "$work" mod tidy
cp "$work/go.mod" "$minor.mod"
cp "$work/go.sum" "$minor.sum"

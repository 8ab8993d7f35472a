#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails when a generated file does not match its sources. The script generates into a copy
# and does not change the tree.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

inputs=(go.mod go.sum cmd hack pkg artifacts docs)
generated=(hack pkg artifacts docs)

tar -cf - "${inputs[@]}" | tar -xf - -C "$copy"
if ! CODEGEN_BIN="$PWD/bin/codegen" "$copy/hack/update-codegen.sh" >"$copy/log" 2>&1; then
  cat "$copy/log" >&2
  echo "verify-codegen: the generators failed" >&2
  exit 1
fi

status=0
for path in "${generated[@]}"; do
  diff -Nru "$path" "$copy/$path" >>"$copy/diff" || status=1
done
if [[ "$status" -ne 0 ]]; then
  cat "$copy/diff"
  echo "verify-codegen: generated files are out of date; run: make generate" >&2
fi
exit "$status"

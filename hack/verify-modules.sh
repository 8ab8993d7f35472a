#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails when the go.mod or go.sum of a module in this repository is not tidy. The
# script changes no file.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
while IFS= read -r file; do
  module=$(dirname "$file")
  if ! go -C "$module" mod tidy -diff; then
    echo "verify-modules: $file is not tidy; run: go -C $module mod tidy" >&2
    status=1
  fi
done < <(find . -name go.mod -not -path './bin/*' -not -path '*/testdata/*' | LC_ALL=C sort)
exit "$status"

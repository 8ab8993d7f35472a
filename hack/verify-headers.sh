#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails when a Go file or a script does not begin with the license header. Only a build
# constraint or the name of the interpreter may precede the header.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
while IFS= read -r file; do
  prefix='// '
  [[ "$file" == *.sh ]] && prefix='# '
  header=$(sed "s|^// |$prefix|" hack/boilerplate.go.txt)
  found=$(grep -v -e '^//go:build' -e '^// +build' -e '^#!' -e '^$' "$file" | head -n 2 || true)
  if [[ "$found" != "$header" ]]; then
    echo "$file" >&2
    status=1
  fi
done < <(find . \( -name '*.go' -o -name '*.sh' \) -not -path './bin/*' -not -path './.git/*' -not -path '*/testdata/*' | LC_ALL=C sort)
if [[ "$status" -ne 0 ]]; then
  echo "verify-headers: the files above do not begin with hack/boilerplate.go.txt" >&2
fi
exit "$status"

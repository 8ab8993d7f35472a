#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Fails when a Go file is not formatted with gofmt, or a script does not parse.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

status=0
unformatted=$(find . -name '*.go' -not -path './bin/*' -not -path './.git/*' -print0 | xargs -0 gofmt -s -l)
if [[ -n "$unformatted" ]]; then
  echo "$unformatted" >&2
  echo "verify-format: run gofmt -s -w on the files above" >&2
  status=1
fi
for script in .ci/run hack/*.sh; do
  bash -n "$script" || status=1
done
exit "$status"

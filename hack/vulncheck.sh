#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Reports known vulnerabilities in the code that modules of this repository call.
#
#   hack/vulncheck.sh GOVULNCHECK [MODULE...]
#
# GOVULNDB names the database: https://vuln.go.dev by default, or another URL, or a directory (file:///path). Exits with 3 if
# there is a vulnerability, and with 1 if the check failed, for example because the database was not reachable.

set -euo pipefail

govulncheck=$1
shift
database=${GOVULNDB:-https://vuln.go.dev}

status=0
for module in "$@"; do
  echo "vulncheck: $module"
  result=0
  output=$("$govulncheck" -C "$module" -db "$database" ./... 2>&1) || result=$?
  printf '%s\n' "$output"
  case "$result" in
    0) ;;
    3) status=3 ;;
    *)
      if [[ "$output" == *"fetching vulnerabilities"* || "$output" == *"unrecognized vulndb format"* ]]; then
        echo "vulncheck: the database $database is not reachable. Unpack https://vuln.go.dev/vulndb.zip from a machine" \
          "that reaches it, and set GOVULNDB=file:///path/to/vulndb, or set GOVULNDB to the URL of a mirror." >&2
      fi
      exit 1
      ;;
  esac
done
exit "$status"

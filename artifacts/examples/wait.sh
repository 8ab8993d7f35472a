#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Waits until a custom resource is Ready or Stalled, whichever comes first, and prints the reason.
# Exit code 0: it is Ready. 1: the time is up, or there is no such object. 2: it is Stalled, so a user must act.
# The script needs bash 5.1.
#
#   wait.sh TYPE/NAME TIMEOUT [KUBECTL-FLAG...]
#   wait.sh demoapp/demoapp-sample 2m --namespace=team

set -euo pipefail

object=$1 timeout=$2
shift 2

kubectl wait "$object" --for=condition=Ready --timeout="$timeout" "$@" >/dev/null &
ready=$!
kubectl wait "$object" --for=condition=Stalled --timeout="$timeout" "$@" >/dev/null 2>&1 &
stalled=$!
trap 'kill "$ready" "$stalled" 2>/dev/null || true' EXIT

code=0
wait -n -p first "$ready" "$stalled" || code=1
if [[ "$code" -eq 0 && "$first" == "$stalled" ]]; then
  code=2
fi
kubectl get "$object" "$@" --output=jsonpath='{range .status.conditions[?(@.type=="Ready")]}{.reason}: {.message}{"\n"}{end}'
exit "$code"

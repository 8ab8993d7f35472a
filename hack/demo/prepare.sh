#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Prepares a cluster for docs/tour.md: checks that it has no operator yet, and makes the namespace of the tour.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
	echo "$*" >&2
	exit 1
}

crds=$(printf -- '--filename=%s ' artifacts/kinds/*/crd.yaml)
simulated=$(kubectl get nodes -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}' | tr ' ' '\n' | sort -u)
class=$(kubectl get storageclasses -o jsonpath='{.items[?(@.metadata.annotations.storageclass\.kubernetes\.io/is-default-class=="true")].metadata.name}')
if [[ "$simulated" != kwok && -z "$class" ]]; then
	fail 'This cluster has no default StorageClass, which the databases of the tour need. Make one the default, or take another cluster.'
fi

# An earlier tour was killed.
hack/demo/clean-up.sh

# The namespace of the audit records outlives an installation.
audit=$(kubectl get namespace/demoapp-audit --ignore-not-found -o name)
# shellcheck disable=SC2086 # The flags are words.
present=$(kubectl get -f artifacts/crds/ $crds -f artifacts/deploy/10-rbac.yaml --ignore-not-found -o name
	kubectl get namespace/demoapp-tour namespace/demoapp-system --ignore-not-found -o name)
if [[ -n "$present" ]]; then
	fail "This cluster has these already, so that the tour could not distinguish its own objects: ${present//$'\n'/, }. Take another cluster."
fi

kubectl create -f - <<EOF
apiVersion: v1
kind: Namespace
metadata:
  name: demoapp-tour
  labels:
    demo.example.com/tour: "true"
    pod-security.kubernetes.io/enforce: restricted
  annotations:
    demo.example.com/keep: "$audit"
EOF

# Databases wait for their volumes, which simulated nodes do not mount.
if [[ "$simulated" == kwok ]]; then
	for i in 1 2 3 4 5; do
		kubectl create -f - <<-EOF
			{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "demoapp-tour-$i", "labels": {"demo.example.com/tour": "true"}},
			 "spec": {"capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/demoapp-tour/$i"}}}
		EOF
	done
fi

#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Removes all that docs/tour.md makes on a cluster. It changes nothing on a cluster without the namespace of the tour.
#
#	hack/demo/clean-up.sh [PID]
#
# PID is the operator's process. It ends when it has seen to the deletion of the custom resources. With THROWAWAY=yes, the
# script only ends that process, since the cluster ends with the tour.
set -uo pipefail
cd "$(dirname "$0")/../.."

end() {
	kill "$1" 2>/dev/null
	while kill -0 "$1" 2>/dev/null; do sleep 0.1; done
}
running() {
	[[ -n "$1" ]] && kill -0 "$1" 2>/dev/null
}
if [[ "${THROWAWAY:-}" == yes ]]; then
	running "${1:-}" && end "$1"
	exit 0
fi

namespace=$(kubectl get namespace --selector=demo.example.com/tour=true -o name) || exit
if [[ "$namespace" != namespace/demoapp-tour ]]; then
	exit 0
fi
failed=0
remove() {
	kubectl delete --ignore-not-found --timeout=60s "$@" || failed=1
}
# The kinds of the tour that the cluster serves.
crds=(-f artifacts/crds/)
roles=(-f artifacts/deploy/10-rbac.yaml)
for kind in artifacts/kinds/*/; do
	crds+=(-f "${kind}crd.yaml")
	roles+=(-f "${kind}rbac.yaml")
done
kinds=$(kubectl get "${crds[@]}" --ignore-not-found -o name | sed 's|.*/||' | paste -sd, -)

if [[ -n "$kinds" ]]; then
	if running "${1:-}"; then
		# A custom resource that was deleted before its owner may be created again.
		for _ in 1 2; do
			kubectl --namespace=demoapp-tour delete "$kinds" --all --timeout=30s
		done
		end "$1"
	fi
	# Without the operator, nothing else removes the finalizers.
	for object in $(kubectl --namespace=demoapp-tour get "$kinds" -o name); do
		kubectl --namespace=demoapp-tour patch "$object" --type=merge -p '{"metadata":{"finalizers":null}}' || failed=1
	done
fi
remove "${roles[@]}"
if [[ "$(kubectl get "$namespace" -o jsonpath='{.metadata.annotations.demo\.example\.com/keep}')" == namespace/demoapp-audit ]]; then
	remove --namespace=demoapp-audit configmaps --selector=demo.example.com/source-namespace=demoapp-tour
else
	remove namespace/demoapp-audit
fi
remove "${crds[@]}"
remove crd,ingressclass --selector=demo.example.com/tour=true
# Volumes outlive their claims, which end with the namespace.
volumes=$(kubectl get persistentvolumes -o jsonpath='{range .items[?(@.spec.claimRef.namespace=="demoapp-tour")]}{.metadata.name}{"\n"}{end}')
remove persistentvolume --selector=demo.example.com/tour=true --wait=false
remove namespace/demoapp-system "$namespace"
for volume in $volumes; do
	kubectl wait --for=delete --timeout=60s "persistentvolume/$volume" || {
		echo "The volume $volume remains. Delete it if its StorageClass retains volumes." >&2
		failed=1
	}
done
exit "$failed"

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import "fmt"

// watchesFile has the kind Memcached. The path of its chart is relative to the top folder of
// the repository, where the tour runs.
const watchesFile = "artifacts/kinds/memcached/watches.yaml"

// hybridKind is a kind of the hybrid example: a folder in artifacts/kinds.
type hybridKind string

// hybridKinds are opted in during the tour.
var hybridKinds = []hybridKind{"memcached", "memcachedbackup"}

// file returns the path of a file of the kind.
func (k hybridKind) file(name string) string {
	return fmt.Sprintf("artifacts/kinds/%s/%s.yaml", string(k), name)
}

// optIn installs the CRD, the RBAC and the example of the kind, and waits until the example
// is ready.
func (k hybridKind) optIn() []act {
	return []act{
		{command: fmt.Sprintf("kubectl apply -f %s -f %s", k.file("crd"), k.file("rbac"))},
		{command: fmt.Sprintf("kubectl wait -f %s --for=condition=Established --timeout=%.0fs", k.file("crd"), waitLimit.Seconds())},
		{command: in("apply -f " + k.file("example"))},
		waitFor(string(k)+"/"+string(k)+"-sample", "condition=Ready"),
	}
}

func memcached() step {
	const cache = "memcached/memcached-sample"
	return step{
		title: "A chart becomes a kind",
		note: "The file " + watchesFile + " names a chart and the kind Memcached. The running operator starts the kind when its CRD is " +
			"installed. The spec has the chart's values, and the release is followed as that of a DemoApp is.",
		acts: append(hybridKinds[0].optIn(),
			act{command: in("get memcacheds"), want: shows("memcached-sample", "True", "Healthy")},
			act{
				command: field(cache, ".status.deployedRelease"),
				want:    shows(`"name":"memcached-sample"`, `"revision":1`, `"chart":"memcached"`),
			},
			act{command: in("patch " + cache + ` --type=merge -p '{"spec":{"replicaCount":3}}'`)},
			waitFor(cache, revision(2)),
			waitFor(cache, "condition=Ready"),
			act{command: field("deployment memcached-sample", ".spec.replicas"), want: prints("3")},
			deleteAndAwait("service memcached-sample"),
			act{command: field(cache, ".status.deployedRelease.revision"), want: prints("2")},
		),
	}
}

func memcachedBackup() step {
	const backup = "memcachedbackup/memcachedbackup-sample"
	return step{
		title: "A kind in Go runs beside it",
		note:  "Go code of the same process keeps a Deployment for each MemcachedBackup. Its status has the names of the pods.",
		acts: append(hybridKinds[1].optIn(),
			act{command: field(backup, ".status.nodes"), want: shows("memcachedbackup-sample-")},
			deleteAndAwait("deployment memcachedbackup-sample"),
			waitFor(backup, "condition=Ready"),
		),
	}
}

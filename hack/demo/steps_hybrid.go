// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

// watchesFile has the kind Memcached. The path of its chart is relative to the top folder of
// the repository, where the tour runs.
const watchesFile = "artifacts/kinds/memcached/watches.yaml"

func memcached() step {
	const cache = "memcached/memcached-sample"
	return step{
		title: "A chart becomes a kind",
		note: "The file " + watchesFile + " names a chart and the kind Memcached. The running operator starts the kind when its CRD is " +
			"installed. The spec has the chart's values, and the release is followed as that of a DemoApp is.",
		acts: append(append(optInKind("memcached").optIn(), optInKind("memcached").apply(cache)...),
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
		acts: append(append(optInKind("memcachedbackup").optIn(), optInKind("memcachedbackup").apply(backup)...),
			act{command: field(backup, ".status.nodes"), want: shows("memcachedbackup-sample-")},
			deleteAndAwait("deployment memcachedbackup-sample"),
			waitFor(backup, "condition=Ready"),
		),
	}
}

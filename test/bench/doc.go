// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator on a real API server.
//
//	make bench
//	go -C test/bench run . -sizes=200x5,website=1000x3
//	go -C test/bench run . -sizes=200x5 -compare=/path/to/another/demoapp-controller
//
// A load is a number of objects of a kind: DemoApps, or a kind of artifacts/kinds by the name of
// its folder. The objects are copies of the example of the kind. A kind with a watches.yaml is
// served by it.
//
// The contenders are the floor and the operator, or with -compare another operator ("old") and the
// operator of -operator ("new"), both with the CRDs and the RBAC of the working tree.
// docs/benchmarks.md says how the figures come about.
//
// The floor serves every kind, because it knows none. An operator first installs, upgrades and
// uninstalls one object, the sample, behind a proxy that records the writes. The floor sends these
// writes for the other objects: it replaces the name and the UIDs of the sample. The run fails if
// the floor is slower in installs or upgrades than the operator.
//
// -replicas and -args are for the operator of -operator. CPU, writes and memory are sums over all
// replicas.
package main

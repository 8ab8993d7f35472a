// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the operator on a real API server and writes the report docs/benchmarks.md.
//
// # Method
//
// The operator is compared with a floor: a program that sends only the requests that no operator can do without, with as
// many workers, over a pool of connections, without reading the answers. Ratios to the floor say how much the operator
// adds; times depend on the machine.
//
// Each size has a control plane of its own. A first round warms the API server up and does not count. Each further round
// runs the floor and the operator one after the other, and each round begins with the other one. A contender begins on a
// cluster without DemoApps, because what it made is removed before the next one begins. The report has the median of the
// rounds, and the least and the most. A ratio is that of two times of the same round. The run fails if the floor was
// slower than the operator, since it is then no floor.
//
// A round of the operator installs, upgrades, corrects drift, corrects drift while other installs run, restarts and
// uninstalls. The last round also observes the idle operator.
//
// # Kinds of watches.yaml
//
//	go -C test/bench run . -root ../.. -watches=20x50
//
// With -watches, 20 kinds with 50 releases each take the place of DemoApps, in one round. The figures go to standard output:
// requests, processor time, and the live objects on the heap before and after -others Secrets and ConfigMaps are created.
//
// # Plain Go kinds
//
//	go -C test/bench run . -root ../.. -kinds=website=1000,ecommerceplatform=200
//
// With -kinds, custom resources of plain Go kinds take the place of DemoApps, in one round. A kind is named by its folder in
// artifacts/kinds, whose example.yaml is the custom resource. Each kind has a control plane of its own, with an audit log.
//
// The operator first makes one custom resource ready, as a sample, through a proxy that records its writes. The floor sends
// the same bodies under other names. It sends each object once, and of each status the first and the last version. It reads
// only the UIDs that owner references need. The last version of a status waits for nothing, so the floor is done before pods
// are ready. A round of the floor with 100 custom resources warms the API server up.
//
// Requests come from the audit log. The figures go to standard output, as a section of docs/benchmarks-notes.md. The run
// fails if the floor was slower than the operator, until children are applied or until the last status.
//
// # Comparison of two operators
//
//	go -C test/bench run . -root ../.. -compare=/path/to/another/demoapp-controller -sizes=200x5,1000x3
//
// With -compare, the operator of the working tree ("new") alternates with another binary ("old") in the same way. Both
// run with the CRDs and the RBAC of the working tree. The medians and the ratios new/old of each phase go to standard
// output.
package main

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command localcluster runs a real Kubernetes control plane on this machine, from binaries that it
// builds itself with the Go toolchain: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, and kwok, which plays the part of the nodes. It needs neither containers nor
// root, and it listens on 127.0.0.1 only.
//
//	go -C hack/localcluster run . up            # builds missing programs, starts, returns when pods can run
//	export KUBECONFIG=$(go -C hack/localcluster run . kubeconfig)
//	go -C hack/localcluster run . up --kubernetes 1.33 --name old
//	go -C hack/localcluster run . down
//
// # Binaries
//
// The versions are from this module's go.mod, which is embedded in the program; the tools of its
// tool block are built into <cache>/bin/<key>, once. The key is a hash of go.mod, go.sum, the linker
// flags and the platform, so that another version never meets an old binary.
//
// For another version of Kubernetes, the API server, the controller manager, the scheduler and
// kubectl are built from the module files of that version in the folder kubernetes, which
// kubernetes/update.sh writes. The versions of etcd and kwok always come from go.mod. A real node
// needs the version in go.mod, because its kubelet has this version.
//
// Builders exclude each other with a file lock and publish the folder by renaming it.
//
// # Instances
//
// Each --name is an instance of its own: ports, certificates, data, logs. Its folder is
// <cache>/clusters/<name>. One process, the supervisor, starts the components, watches them and
// ends them; it holds a lock on <cache>/clusters/<name>.lock for as long as it lives, which is how
// the other commands know that the instance lives. The lock file holds the supervisor's process id
// and start time, so that down never signals a process that merely inherited the number.
//
// The supervisor is "localcluster up --foreground". Its stdin is its lifeline: when stdin is
// closed, the supervisor ends the components, removes the instance and exits. A test that starts it
// and crashes therefore leaves nothing behind. Plain up starts the same supervisor in a session of
// its own, waits until it reports ready on stdout, and writes "detach" to the lifeline before it
// leaves. On Linux the kernel kills the components when the supervisor dies, however it dies;
// elsewhere the next up or down of that name ends those that are recorded in the instance's state
// file.
//
// SIGUSR1 makes the supervisor restart the API server, and SIGUSR2 etcd, for tests of the time
// meanwhile and afterwards. The other components go on, as they do when a real one restarts.
//
// # The cluster
//
// RBAC and the default admission plugins are on, ServiceAccounts get working tokens, priority and
// fairness has its defaults, and --audit writes an audit log of every request. The simulated nodes
// run any pod at once: it becomes Ready, the pod of a Job completes, and a pod with an image from a
// registry whose name ends in ".invalid" stays in ImagePullBackOff. The rules are in the folder
// stages.
package main

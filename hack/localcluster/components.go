// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"path"
)

//go:embed stages/*.yaml
var stageFiles embed.FS

//go:embed audit-policy.yaml
var auditPolicy []byte

// nodeIP is the address of every node, from a range reserved for documentation. podNetwork has room
// for many simulated pods.
const (
	nodeIP     = "192.0.2.1"
	podNetwork = "10.244.0.0/16"
)

// simulatedLabel marks the simulated nodes.
const simulatedLabel = "localcluster/simulated"

const (
	stagesFile      = "stages.yaml"
	auditPolicyFile = "audit-policy.yaml"
)

const (
	// apiServerName is the component that SIGUSR1 restarts.
	apiServerName = "kube-apiserver"
	// etcdName is the component that SIGUSR2 restarts.
	etcdName = "etcd"
)

// component is one process of the control plane.
type component struct {
	name string
	args []string
	// ports are the ports of the component, always on 127.0.0.1.
	ports []int
	// path is the program, if it is not the binary with the component's name.
	path string
	// isolated gives the process namespaces of its own for processes and mounts.
	isolated bool
}

// ports are the three ports of a control plane. All other listeners are off.
type ports struct {
	apiServer, etcd, etcdPeer int
}

// server returns the URL of the API server for the components.
func (p ports) server() string { return localURL(p.apiServer) }

func localURL(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

// etcd trades durability for speed, since no data needs to survive a crash.
func etcd(inst instance, p ports) component {
	return component{name: etcdName, ports: []int{p.etcd, p.etcdPeer}, args: []string{
		"--name=default",
		"--data-dir=" + inst.data(),
		"--unsafe-no-fsync",
		"--listen-client-urls=" + localURL(p.etcd),
		"--advertise-client-urls=" + localURL(p.etcd),
		"--listen-peer-urls=" + localURL(p.etcdPeer),
		"--initial-advertise-peer-urls=" + localURL(p.etcdPeer),
		"--initial-cluster=default=" + localURL(p.etcdPeer),
		"--client-cert-auth", "--peer-client-cert-auth",
		"--trusted-ca-file=" + inst.pki("etcd-ca.crt"),
		"--cert-file=" + inst.pki("etcd.crt"),
		"--key-file=" + inst.pki("etcd.key"),
		"--peer-trusted-ca-file=" + inst.pki("etcd-ca.crt"),
		"--peer-cert-file=" + inst.pki("etcd.crt"),
		"--peer-key-file=" + inst.pki("etcd.key"),
		"--log-level=warn",
	}}
}

// serverOptions are the options of an API server.
type serverOptions struct {
	// minor is the minor version of Kubernetes.
	minor           int
	audit, realNode bool
}

// shardedWatches is the first minor version with the feature gate ShardedListAndWatch. An API server refuses unknown gates.
const shardedWatches = 36

// apiServer keeps the usual defaults wherever a client could notice a difference: RBAC, admission,
// priority and fairness.
func apiServer(inst instance, p ports, o serverOptions) component {
	args := []string{
		fmt.Sprintf("--secure-port=%d", p.apiServer),
		"--etcd-servers=" + localURL(p.etcd),
		"--etcd-cafile=" + inst.pki("etcd-ca.crt"),
		"--etcd-certfile=" + inst.pki("etcd-client.crt"),
		"--etcd-keyfile=" + inst.pki("etcd-client.key"),
		"--client-ca-file=" + inst.pki("ca.crt"),
		"--tls-cert-file=" + inst.pki("apiserver.crt"),
		"--tls-private-key-file=" + inst.pki("apiserver.key"),
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--service-cluster-ip-range=" + serviceNetwork,
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + inst.pki("tokens.key"),
		"--service-account-signing-key-file=" + inst.pki("tokens.key"),
		"--profiling=false",
	}
	if o.minor >= shardedWatches {
		// Replicas with --shards receive only their share of the objects.
		args = append(args, "--feature-gates=ShardedListAndWatch=true")
	}
	if o.realNode {
		args = append(args, apiServerOfRealNode(inst)...)
	} else {
		// The kubernetes Service cannot have a loopback address as its endpoint, and no client
		// needs that endpoint.
		args = append(args, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none")
	}
	if o.audit {
		args = append(args,
			"--audit-policy-file="+inst.config(auditPolicyFile),
			"--audit-log-path="+inst.auditLog(),
			// An entry is written before its answer is sent, so a client with an answer finds its
			// request in the log.
			"--audit-log-mode=blocking",
			// In megabytes. The limit prevents rotation, which would lose requests for readers of
			// the log.
			"--audit-log-maxsize=100000",
		)
	}
	return component{name: apiServerName, ports: []int{p.apiServer}, args: args}
}

// withoutCloud is the first minor version whose controller manager has no controllers of clouds. A controller manager refuses
// unknown controllers.
const withoutCloud = 37

// controllerManager runs the default controllers, each with its own ServiceAccount. Controllers
// that need a cloud or attach volumes are off, because their loops cost CPU time without a use.
func controllerManager(inst instance, minor int) component {
	controllers := "--controllers=*,-persistentvolume-attach-detach-controller,-persistentvolume-expander-controller"
	if minor < withoutCloud {
		controllers += ",-cloud-node-lifecycle-controller,-node-route-controller,-service-lb-controller"
	}
	return component{name: "kube-controller-manager", args: []string{
		"--kubeconfig=" + inst.config("controller-manager.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + inst.pki("tokens.key"),
		"--root-ca-file=" + inst.pki("ca.crt"),
		controllers,
		"--kube-api-qps=200",
		"--kube-api-burst=400",
		"--profiling=false",
	}}
}

func scheduler(inst instance) component {
	return component{name: "kube-scheduler", args: []string{
		"--kubeconfig=" + inst.config("scheduler.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--profiling=false",
	}}
}

// kwok simulates the kubelets of all nodes but the real one. Without --server-address, it does not listen.
func kwok(inst instance, realNode bool) component {
	nodes := []string{"--manage-all-nodes"}
	if realNode {
		nodes = []string{"--manage-all-nodes=false", "--manage-nodes-with-label-selector=" + simulatedLabel + "=true"}
	}
	return component{name: "kwok", args: append(nodes,
		"--kubeconfig="+inst.config("kwok.kubeconfig"),
		"--config="+inst.config(stagesFile),
		"--node-ip="+nodeIP,
		"--cidr="+podNetwork,
		"--node-lease-duration-seconds=40",
	)}
}

// configFiles returns the components' files without secrets.
func configFiles() (map[string][]byte, error) {
	entries, err := stageFiles.ReadDir("stages")
	if err != nil {
		return nil, fmt.Errorf("read stages: %w", err)
	}
	var stages []byte
	for _, entry := range entries {
		content, err := stageFiles.ReadFile(path.Join("stages", entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read stages: %w", err)
		}
		stages = append(append(stages, "---\n"...), content...)
	}
	return map[string][]byte{stagesFile: stages, auditPolicyFile: auditPolicy}, nil
}

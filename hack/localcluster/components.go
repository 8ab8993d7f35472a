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

// nodeIP, of a range reserved for documentation, stands for every node; podNetwork has room for many simulated pods.
const (
	nodeIP     = "192.0.2.1"
	podNetwork = "10.244.0.0/16"
)

const (
	stagesFile      = "stages.yaml"
	auditPolicyFile = "audit-policy.yaml"
)

// component is one process of the control plane, ready to be started.
type component struct {
	name string
	args []string
	// ports are those that it listens on, always on 127.0.0.1.
	ports []int
}

// ports are the three that a control plane needs. What else could listen is switched off.
type ports struct {
	apiServer, etcd, etcdPeer int
}

func (p ports) server() string { return localURL(p.apiServer) }

func localURL(port int) string { return fmt.Sprintf("https://127.0.0.1:%d", port) }

// etcd trades durability for speed: after a crash nobody wants the data back.
func etcd(inst instance, p ports) component {
	return component{name: "etcd", ports: []int{p.etcd, p.etcdPeer}, args: []string{
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

// apiServer keeps the defaults of a real one wherever a client could notice: RBAC, admission, priority and fairness.
func apiServer(inst instance, p ports, audit bool) component {
	args := []string{
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", p.apiServer),
		// The kubernetes Service cannot have a loopback address as its endpoint, and nobody looks for one.
		"--endpoint-reconciler-type=none",
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
	if audit {
		args = append(args,
			"--audit-policy-file="+inst.config(auditPolicyFile),
			"--audit-log-path="+inst.auditLog(),
			// Written before the answer is sent: who has the answer finds the request in the log.
			"--audit-log-mode=blocking",
			// In megabytes; a log that is rotated while it is read loses requests.
			"--audit-log-maxsize=100000",
		)
	}
	return component{name: "kube-apiserver", ports: []int{p.apiServer}, args: args}
}

// controllerManager runs the default controllers, each under its own ServiceAccount, but for those that need a cloud or
// attach volumes: there is nothing for them to do, and their loops cost CPU time.
func controllerManager(inst instance) component {
	return component{name: "kube-controller-manager", args: []string{
		"--kubeconfig=" + inst.config("controller-manager.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials=true",
		"--service-account-private-key-file=" + inst.pki("tokens.key"),
		"--root-ca-file=" + inst.pki("ca.crt"),
		"--controllers=*,-cloud-node-lifecycle-controller,-node-route-controller,-service-lb-controller," +
			"-persistentvolume-attach-detach-controller,-persistentvolume-expander-controller",
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

// kwok plays the kubelets of all nodes. Without --server-address it listens nowhere.
func kwok(inst instance) component {
	return component{name: "kwok", args: []string{
		"--kubeconfig=" + inst.config("kwok.kubeconfig"),
		"--config=" + inst.config(stagesFile),
		"--manage-all-nodes",
		"--node-ip=" + nodeIP,
		"--cidr=" + podNetwork,
		"--node-lease-duration-seconds=40",
	}}
}

// configFiles returns the files that the components read and that hold no secrets.
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

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"text/template"
)

// realNodeName is the name of the node that runs containers.
const realNodeName = "real-0"

// The addresses of the network namespace of a real node.
const (
	// nodeAddress is the address of a bridge, at which the API server, the kubelet and CoreDNS listen. A dummy interface would
	// do, but not every kernel has it.
	nodeAddress = "10.245.0.1"
	// nodePods are the addresses of the pods.
	nodePods = "10.246.0.0/24"
	// dnsServiceIP is the cluster IP of the Service kube-dns.
	dnsServiceIP = "10.96.0.10"
	// realAPIServerPort is the port of the API server in the namespace. NetworkPolicies name it.
	realAPIServerPort = 6443
)

// mountedInstance is the folder of the instance in the mount namespace of the node.
const mountedInstance = "/run/localcluster/instance"

// The processes of a real node, which have logs of these names.
const (
	nodeName       = "node"
	containerdName = "containerd"
	kubeletName    = "kubelet"
	kubeProxyName  = "kube-proxy"
	coreDNSName    = "coredns"
)

//go:embed node/*
var nodeFiles embed.FS

func (i instance) node(path string) string { return filepath.Join(i.dir, "node", path) }

// containerd returns the socket of containerd. Its file is on the disk of the machine, so programs outside of the namespaces
// can use it.
func (i instance) containerd() string { return i.node("containerd.sock") }

// apiServerOfRealNode are the flags of an API server that pods and a kubelet reach. It is in the network namespace of the node.
func apiServerOfRealNode(inst instance) []string {
	return []string{
		"--bind-address=0.0.0.0",
		"--advertise-address=" + nodeAddress,
		"--kubelet-client-certificate=" + inst.pki("kubelet-client.crt"),
		"--kubelet-client-key=" + inst.pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
	}
}

// realNode is a node that runs containers: containerd, a kubelet, kube-proxy and CoreDNS in network, process and mount namespaces
// of their own. The control plane shares the network namespace.
type realNode struct {
	instance instance
	// programs are the folders of the programs of the node.
	programs []string
	// images are archives of images that the node has from its start.
	images []string

	forwarder net.Listener
	work      sync.WaitGroup
	end       context.CancelFunc
}

// prepare moves the fleet into a network namespace, writes the node's files, and forwards port of this machine to the API server
// in the namespace. The components of fleet that are launched from now on are in the namespace.
func (n *realNode) prepare(ctx context.Context, fleet *fleet, port int) (err error) {
	for _, dir := range []string{"lib", "log", "volumes"} {
		if err := os.MkdirAll(n.instance.node(dir), 0o755); err != nil { //nolint:gosec // Containers of other users read below it.
			return fmt.Errorf("create node: %w", err)
		}
	}
	files, err := n.files()
	if err != nil {
		return err
	}
	if err := writeFiles(n.instance.node("config"), files); err != nil {
		return err
	}
	if err := createCgroups(n.instance.cgroup()); err != nil {
		return err
	}
	if err := fleet.launcher.do(ownNetwork); err != nil {
		return err
	}
	if n.forwarder, err = listen(ctx, port); err != nil {
		return fmt.Errorf("forward port %d: %w", port, err)
	}
	n.work.Go(func() { n.forward(ctx, fleet.launcher) })
	return nil
}

// start launches the node, and creates the objects that clusters have for it.
func (n *realNode) start(ctx context.Context, fleet *fleet, api *client) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// The file of a program that "go run" started may be gone.
	if _, err := os.Stat(self); err != nil {
		self = fmt.Sprintf("/proc/%d/exe", os.Getpid())
	}
	args := []string{"node", "--dir=" + n.instance.dir}
	for _, programs := range n.programs {
		args = append(args, "--programs="+programs)
	}
	for _, image := range n.images {
		args = append(args, "--image="+image)
	}
	if err := fleet.launch(ctx, component{name: nodeName, path: self, isolated: true, args: args}); err != nil {
		return err
	}
	if err := fleet.await(ctx, "API server", apiServerName, api.ready); err != nil {
		return err
	}
	if err := api.createAll(ctx, clusterObjects()); err != nil {
		return err
	}
	ctx, n.end = context.WithCancel(context.WithoutCancel(ctx))
	n.work.Go(func() {
		defer api.close()
		provision(ctx, api, n.instance)
	})
	return nil
}

// leave ends the forwarder, which uses the launcher of the fleet, and the provisioner.
func (n *realNode) leave() error {
	if n.end != nil {
		n.end()
	}
	var err error
	if n.forwarder != nil {
		err = n.forwarder.Close()
	}
	n.work.Wait()
	n.forwarder, n.end = nil, nil
	return err
}

// cgroup is the name of the control group of all containers.
func (i instance) cgroup() string { return "localcluster-" + i.name }

// forward connects clients of the forwarder with the API server, until the forwarder is closed.
func (n *realNode) forward(ctx context.Context, namespace *launcher) {
	ctx = context.WithoutCancel(ctx)
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for {
		outer, err := n.forwarder.Accept()
		if err != nil {
			return
		}
		var inner net.Conn
		// The socket belongs to the namespace of the thread that creates it, and Go connects to one address on the thread of the
		// caller.
		err = namespace.do(func() (err error) {
			inner, err = new(net.Dialer).Dial("tcp", fmt.Sprintf("127.0.0.1:%d", realAPIServerPort))
			return err
		})
		if err != nil {
			_ = outer.Close()
			continue
		}
		connections.Go(func() { join(ctx, outer, inner) })
	}
}

// join copies between two connections until one side has ended, or ctx.
func join(ctx context.Context, a, b net.Conn) {
	closeBoth := func() { _, _ = a.Close(), b.Close() }
	defer context.AfterFunc(ctx, closeBoth)()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(a, b)
		closeBoth()
	})
	_, _ = io.Copy(b, a)
	closeBoth()
	back.Wait()
}

// nodeValues are the values in the node's files. The paths are paths in the mount namespace of the node.
type nodeValues struct {
	Name, Address, Pods, DNS, Cgroup string
	// Config and State are the folders of the files and of the instance.
	Config, PKI, Node string
}

// files returns the configuration of the node's processes.
func (n *realNode) files() (map[string][]byte, error) {
	values := nodeValues{
		Name: realNodeName, Address: nodeAddress, Pods: nodePods, DNS: dnsServiceIP, Cgroup: n.instance.cgroup(),
		Config: mountedInstance + "/config", PKI: mountedInstance + "/pki", Node: mountedInstance + "/node",
	}
	entries, err := nodeFiles.ReadDir("node")
	if err != nil {
		return nil, fmt.Errorf("read the node's files: %w", err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		parsed, err := template.ParseFS(nodeFiles, "node/"+entry.Name())
		if err != nil {
			return nil, fmt.Errorf("read the node's files: %w", err)
		}
		var content bytes.Buffer
		if err := parsed.Execute(&content, values); err != nil {
			return nil, fmt.Errorf("write %s: %w", entry.Name(), err)
		}
		files[entry.Name()] = content.Bytes()
	}
	return files, nil
}

// createAll creates objects, each at the path of its collection.
func (c *client) createAll(ctx context.Context, objects []object) error {
	for _, o := range objects {
		err := c.do(ctx, http.MethodPost, o.path, o.body, nil)
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusConflict {
			continue
		}
		if err != nil {
			return fmt.Errorf("create an object of %s: %w", o.path, err)
		}
	}
	return nil
}

// object is an object of the API, and the path of its collection.
type object struct {
	path string
	body map[string]any
}

// clusterObjects are the objects that clusters have for their nodes: the Service kube-dns and a default StorageClass.
func clusterObjects() []object {
	type fields = map[string]any
	ports := func(target string) []fields {
		return []fields{
			{"name": "dns", "protocol": "UDP", "port": 53, target: 53}, {"name": "dns-tcp", "protocol": "TCP", "port": 53, target: 53},
		}
	}
	endpointPorts := []fields{{"name": "dns", "protocol": "UDP", "port": 53}, {"name": "dns-tcp", "protocol": "TCP", "port": 53}}
	return []object{
		{path: "/api/v1/namespaces/kube-system/services", body: fields{
			"apiVersion": "v1", "kind": "Service",
			"metadata": fields{"name": "kube-dns", "labels": fields{"k8s-app": "kube-dns"}},
			"spec":     fields{"clusterIP": dnsServiceIP, "ports": ports("targetPort")},
		}},
		{path: "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices", body: fields{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata":    fields{"name": "kube-dns", "labels": fields{"kubernetes.io/service-name": "kube-dns"}},
			"addressType": "IPv4", "ports": endpointPorts,
			"endpoints": []fields{{"addresses": []string{nodeAddress}, "conditions": fields{"ready": true}}},
		}},
		{path: "/apis/storage.k8s.io/v1/storageclasses", body: fields{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"metadata": fields{"name": storageClass, "annotations": fields{"storageclass.kubernetes.io/is-default-class": "true"}},
			// A claim binds to a directory of the only real node, so it need not wait for its pod.
			"provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
		}},
	}
}

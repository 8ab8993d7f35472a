// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"sigs.k8s.io/yaml"
)

// admin is the user of the kubeconfig for people. Its group bypasses RBAC.
const (
	admin       = "admin"
	adminsGroup = "system:masters"
)

// The users of the components. RBAC's built-in roles name the first two.
const (
	controllerManagerUser = "system:kube-controller-manager"
	schedulerUser         = "system:kube-scheduler"
	kwokUser              = "kwok"
	kubeProxyUser         = "system:kube-proxy"
	coreDNSUser           = "coredns"
	// kubeletUser is the user of the kubelet of a real node, and nodesGroup its group.
	kubeletUser = "system:node:" + realNodeName
	nodesGroup  = "system:nodes"
)

// credentials are the supervisor's credentials for its API server.
type credentials struct {
	ca          []byte
	certificate tls.Certificate
}

// writeCredentials creates the authorities, certificates, keys and kubeconfigs of an instance, and
// returns the administrator's. The components connect to the URL inside, and the administrator to the URL outside.
func writeCredentials(inst instance, inside, outside string, now time.Time) (credentials, error) {
	ca, err := newAuthority("localcluster-"+inst.name, now)
	if err != nil {
		return credentials{}, err
	}
	files, err := serverFiles(ca, now)
	if err != nil {
		return credentials{}, err
	}
	if err := writeFiles(inst.pki(""), files); err != nil {
		return credentials{}, err
	}

	result := credentials{ca: ca.certificatePEM}
	for _, user := range []struct {
		name, path string
		groups     []string
	}{
		{name: admin, path: inst.kubeconfig(), groups: []string{adminsGroup}},
		{name: kubeletUser, path: inst.config("kubelet.kubeconfig"), groups: []string{nodesGroup}},
		{name: kubeProxyUser, path: inst.config("kube-proxy.kubeconfig")},
		{name: coreDNSUser, path: inst.config("coredns.kubeconfig"), groups: []string{adminsGroup}},
		{name: controllerManagerUser, path: inst.config("controller-manager.kubeconfig")},
		{name: schedulerUser, path: inst.config("scheduler.kubeconfig")},
		{name: kwokUser, path: inst.config("kwok.kubeconfig"), groups: []string{adminsGroup}},
	} {
		pair, err := ca.client(user.name, now, user.groups...)
		if err != nil {
			return credentials{}, err
		}
		server := inside
		if user.name == admin {
			server = outside
		}
		content, err := kubeconfig("localcluster-"+inst.name, server, user.name, ca.certificatePEM, pair)
		if err != nil {
			return credentials{}, err
		}
		if err := writeFiles(filepath.Dir(user.path), map[string][]byte{filepath.Base(user.path): content}); err != nil {
			return credentials{}, err
		}
		if user.name == admin {
			if result.certificate, err = tls.X509KeyPair(pair.certificate, pair.key); err != nil {
				return credentials{}, fmt.Errorf("certificate of %s: %w", user.name, err)
			}
		}
	}
	return result, nil
}

// serverFiles returns the PEM files of etcd and of the API server. etcd has an authority of its
// own, so that clients of the API server cannot reach etcd directly.
func serverFiles(ca *authority, now time.Time) (map[string][]byte, error) {
	etcdCA, err := newAuthority("localcluster-etcd", now)
	if err != nil {
		return nil, err
	}
	etcd, err := etcdCA.server("etcd", now, nil)
	if err != nil {
		return nil, err
	}
	etcdClient, err := etcdCA.client("kube-apiserver", now)
	if err != nil {
		return nil, err
	}
	server, err := ca.server("kube-apiserver", now, []net.IP{net.ParseIP(serviceIP)},
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return nil, err
	}
	kubeletClient, err := ca.client("kube-apiserver", now, adminsGroup)
	if err != nil {
		return nil, err
	}
	tokenKey, err := newKey()
	if err != nil {
		return nil, err
	}
	tokenKeyPEM, err := encodeKey(tokenKey)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"ca.crt":             ca.certificatePEM,
		"apiserver.crt":      server.certificate,
		"apiserver.key":      server.key,
		"kubelet-client.crt": kubeletClient.certificate,
		"kubelet-client.key": kubeletClient.key,
		"tokens.key":         tokenKeyPEM,
		"etcd-ca.crt":        etcdCA.certificatePEM,
		"etcd.crt":           etcd.certificate,
		"etcd.key":           etcd.key,
		"etcd-client.crt":    etcdClient.certificate,
		"etcd-client.key":    etcdClient.key,
	}, nil
}

// kubeconfig returns a kubeconfig file with one cluster and one user, everything inlined.
func kubeconfig(cluster, server, user string, ca []byte, pair keyPair) ([]byte, error) {
	type object = map[string]any
	content, err := yaml.Marshal(object{
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []object{{"name": cluster, "cluster": object{
			"server": server, "certificate-authority-data": ca,
		}}},
		"users": []object{{"name": user, "user": object{
			"client-certificate-data": pair.certificate, "client-key-data": pair.key,
		}}},
		"contexts":        []object{{"name": cluster, "context": object{"cluster": cluster, "user": user}}},
		"current-context": cluster,
	})
	if err != nil {
		return nil, fmt.Errorf("encode kubeconfig: %w", err)
	}
	return content, nil
}

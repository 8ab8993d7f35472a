// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"cmp"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
)

// serviceAccountNamespaceFile is where Kubernetes tells a pod its namespace.
const serviceAccountNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// config is what valid Options amount to in this process: nothing in it is left to be looked up.
type config struct {
	Options
	// identity is unique among all processes that may want the lease.
	identity string
}

// surroundings are what a process finds out about where it runs.
type surroundings struct {
	hostname string
	// namespace is the pod's; empty outside a cluster.
	namespace string
}

func observeSurroundings(name string) surroundings {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = name
	}
	return surroundings{hostname: hostname, namespace: podNamespace(os.Getenv, os.ReadFile)}
}

// podNamespace returns the namespace of the pod: POD_NAMESPACE where the pod's spec sets it, else what its service
// account says. Outside a pod it is empty.
func podNamespace(getenv func(string) string, readFile func(string) ([]byte, error)) string {
	if ns := getenv("POD_NAMESPACE"); ns != "" {
		return ns
	}
	// Outside a cluster there is no such file.
	content, err := readFile(serviceAccountNamespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// complete validates the options and completes them: names are trimmed and each is kept once, and the namespace of the
// lease is filled in from where the process runs.
func (o Options) complete(from surroundings) (config, error) {
	if err := o.Validate(); err != nil {
		return config{}, err
	}
	// The suffix keeps apart a container from the one that it replaces in the same pod.
	cfg := config{Options: o, identity: from.hostname + "_" + string(uuid.NewUUID())}
	cfg.Namespaces = nil
	for _, ns := range o.Namespaces {
		cfg.Namespaces = append(cfg.Namespaces, strings.TrimSpace(ns))
	}
	slices.Sort(cfg.Namespaces)
	cfg.Namespaces = slices.Compact(cfg.Namespaces)
	lease := &cfg.LeaderElection
	lease.ResourceNamespace = cmp.Or(lease.ResourceNamespace, from.namespace, lease.FallbackNamespace, metav1.NamespaceDefault)
	return cfg, nil
}

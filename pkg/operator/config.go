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

// serviceAccountNamespaceFile contains the namespace of the pod.
const serviceAccountNamespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// config is the complete configuration of this process.
type config struct {
	Options
	// identity is unique among the candidates for the lease.
	identity string
}

// surroundings are the properties of the place in which the process runs.
type surroundings struct {
	hostname string
	// namespace is the namespace of the pod. It is empty outside a cluster.
	namespace string
}

func observeSurroundings(name string) surroundings {
	hostname, err := os.Hostname()
	if err != nil {
		hostname = name
	}
	return surroundings{hostname: hostname, namespace: podNamespace(os.Getenv, os.ReadFile)}
}

// podNamespace returns the namespace of the pod: the variable POD_NAMESPACE, else the namespace of
// the service account. Outside a pod, it returns "".
func podNamespace(getenv func(string) string, readFile func(string) ([]byte, error)) string {
	if ns := getenv("POD_NAMESPACE"); ns != "" {
		return ns
	}
	// Outside a cluster, the file does not exist.
	content, err := readFile(serviceAccountNamespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}

// complete validates the options and completes them. It trims the names of namespaces and removes
// duplicates. It sets the namespace of the lease if it is empty.
func (o Options) complete(from surroundings) (config, error) {
	if err := o.Validate(); err != nil {
		return config{}, err
	}
	// The suffix distinguishes a restarted container from the previous container of the same pod.
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

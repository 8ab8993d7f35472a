// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import "cmp"

// Domain is the DNS domain of the cluster, which the operator cannot find out. The empty domain is
// cluster.local, the default of Kubernetes. A Domain is only for names that are shown to people:
// clients that connect use [ServiceHost].
type Domain string

// Host returns the full DNS name of a Service.
func (d Domain) Host(service, namespace string) string {
	return ServiceHost(service, namespace) + "." + cmp.Or(string(d), "cluster.local")
}

// ServiceHost returns the DNS name of a Service that pods of the cluster resolve, whatever the
// domain of the cluster is. The search path of a pod completes the name.
func ServiceHost(service, namespace string) string { return service + "." + namespace + ".svc" }

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
)

// AuditNamespace is the operator's default namespace for audit records.
const AuditNamespace = "demoapp-audit"

// Requests returns what the operator asked for since then because of this namespace, watches left out.
func (n *Namespace) Requests(since time.Time) []cluster.AuditEvent {
	n.t.Helper()
	requests, err := n.Cluster.AuditRequests(since, n.byOperator)
	if err != nil {
		n.t.Fatal(err)
	}
	return requests
}

// AwaitQuiet waits until the operator has asked for nothing because of this namespace for as long as quiet.
func (n *Namespace) AwaitQuiet(quiet time.Duration) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), cluster.DefaultTimeout)
	defer cancel()
	if err := n.Cluster.AwaitAuditQuiet(ctx, quiet, n.byOperator); err != nil {
		n.t.Fatal(err)
	}
}

func (n *Namespace) byOperator(event cluster.AuditEvent) bool {
	if event.Verb == "watch" || !cluster.ByOperator()(event) {
		return false
	}
	return event.Namespace == n.Name ||
		event.Namespace == AuditNamespace && strings.HasPrefix(event.Name, n.Name+"-")
}

// Describe shows requests for a person to read, one a line.
func Describe(requests []cluster.AuditEvent) string {
	var text strings.Builder
	for _, request := range requests {
		resource := request.Resource
		if request.Subresource != "" {
			resource += "/" + request.Subresource
		}
		if resource == "" {
			resource = request.URI
		}
		fmt.Fprintf(&text, "%s %s %s %s/%s: %d\n", request.Received.Format(time.StampMilli), request.Verb, resource,
			request.Namespace, request.Name, request.Code)
	}
	return text.String()
}

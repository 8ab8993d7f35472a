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

// Requests returns the operator's requests for this namespace since then, without watches.
func (n *Namespace) Requests(since time.Time) []cluster.AuditEvent {
	n.t.Helper()
	requests, err := n.Cluster.AuditRequests(since, n.byOperator)
	if err != nil {
		n.t.Fatal(err)
	}
	return requests
}

// AwaitQuiet waits until the operator has sent no request for this namespace for the duration
// quiet.
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

// Describe formats requests for a person, one in each line.
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

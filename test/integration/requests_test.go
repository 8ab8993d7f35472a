// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
)

// requestsOf waits until the operator is done in a namespace, and returns the number of its
// requests there since, by verb and resource. Only requests that filter selects are counted.
func requestsOf(t *testing.T, namespace string, since time.Time, filter cluster.AuditFilter) map[string]int {
	t.Helper()
	inNamespace := func(e cluster.AuditEvent) bool { return cluster.ByOperator()(e) && e.Namespace == namespace }
	if err := shared.AwaitAuditQuiet(t.Context(), quiet, inNamespace); err != nil {
		t.Fatal(err)
	}
	requests, err := shared.AuditRequests(since, func(e cluster.AuditEvent) bool {
		// Time decides whether the operator looks for refused pods.
		isLook := e.Verb == "list" && e.Resource == "events"
		return inNamespace(e) && !isLook && filter(e)
	})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range requests {
		counts[strings.TrimSuffix(r.Verb+" "+r.Resource+"/"+r.Subresource, "/")]++
	}
	return counts
}

// assertRequests waits until the operator has sent at least the wanted requests, and asserts that
// it has sent no further ones. settled waits until the operator is done, and returns the requests
// by verb and resource. A busy operator may begin late, so that the first quiet time is before its
// work.
func assertRequests(t *testing.T, settled func() map[string]int, want map[string]int) {
	t.Helper()
	var got map[string]int
	cluster.Eventually(t.Context(), t, fmt.Sprintf("requests %v", want), func(context.Context) (bool, error) {
		got = settled()
		for name, number := range want {
			if got[name] < number {
				return false, fmt.Errorf("requests are %v", got)
			}
		}
		return true, nil
	})
	if !maps.Equal(got, want) {
		t.Errorf("requests are %v, want %v", got, want)
	}
}

// assertStatusWrites asserts that the status was written at least that often since begin, and
// removes these writes from requests. Progress is written at most once a second, so slow pods cost
// further writes.
func assertStatusWrites(t *testing.T, requests map[string]int, resource string, least int, begin time.Time) {
	t.Helper()
	name := "patch " + resource + "/status"
	if writes, seconds := requests[name], int(time.Since(begin)/time.Second); writes < least || writes > least+seconds {
		t.Errorf("%d writes of the status within %d seconds, want %d and at most one for each second", writes, seconds, least)
	}
	delete(requests, name)
}

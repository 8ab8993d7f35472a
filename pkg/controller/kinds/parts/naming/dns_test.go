// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package naming

import "testing"

func TestHost(t *testing.T) {
	for domain, want := range map[Domain]string{
		"": "db.shop.svc.cluster.local", "cluster.local": "db.shop.svc.cluster.local", "corp.example.com": "db.shop.svc.corp.example.com",
	} {
		if got := domain.Host("db", "shop"); got != want {
			t.Errorf("in domain %q: %s, want %s", domain, got, want)
		}
	}
	if got, want := ServiceHost("db", "shop"), "db.shop.svc"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

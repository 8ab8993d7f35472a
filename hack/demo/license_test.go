// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"strings"
	"testing"
)

func TestLicenseServer(t *testing.T) {
	licenses, err := startLicenses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(name string, want int) {
		t.Helper()
		url := strings.NewReplacer("{{.Namespace}}", tourNamespace, "{{.Name}}", name).Replace(licenses.url())
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", name, answer.StatusCode, want)
		}
	}
	ask("licensed", http.StatusForbidden)
	ask("demoapp-sample", http.StatusOK)
	if _, err := licenses.grant(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask("licensed", http.StatusOK)
	if err := licenses.stop(); err != nil {
		t.Error(err)
	}
}

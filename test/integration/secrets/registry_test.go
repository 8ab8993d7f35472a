// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package secrets

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// startRegistry starts a registry that asks for credentials, refuses them, and repeats them in its
// answer. It returns the address of the registry.
func startRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("WWW-Authenticate", `Basic realm="canary"`)
		http.Error(w, `{"errors": [{"code": "UNAUTHORIZED", "message": "refused `+r.Header.Get("Authorization")+`"}]}`, http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

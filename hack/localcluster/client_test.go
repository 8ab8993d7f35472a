// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestSchedulable(t *testing.T) {
	tests := []struct {
		name, node, want string
	}{
		{name: "ready", node: `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`},
		{name: "new", node: `{"metadata":{"name":"n"}}`, want: "node n is not Ready"},
		{name: "not ready", node: `{"metadata":{"name":"n"},"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, want: "node n is not Ready"},
		{
			name: "tainted",
			node: `{"metadata":{"name":"n"},"spec":{"taints":[{"key":"k"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`,
			want: "node n still has the taint k",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var n node
			if err := json.Unmarshal([]byte(test.node), &n); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := n.schedulable(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestClient(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "etcd failed", http.StatusInternalServerError)
	})
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"items":[{"metadata":{"name":"node-0"}}]}`)
	})
	var created []string
	mux.HandleFunc("POST /api/v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		var n node
		if err := json.NewDecoder(r.Body).Decode(&n); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		created = append(created, n.Metadata.Name)
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(t.Output(), "", 0)
	server.StartTLS()
	defer server.Close()
	api := newClient(server.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	defer api.close()

	var status *statusError
	if err := api.ready(t.Context()); !errors.As(err, &status) || status.code != http.StatusInternalServerError {
		t.Errorf("ready: %v", err)
	}
	if err := api.createNodes(t.Context(), 2); err != nil || strings.Join(created, " ") != "node-0 node-1" {
		t.Errorf("created %q, %v", created, err)
	}
	for want, complaint := range map[int]string{1: "node node-0 is not Ready", 2: "1 of 2 nodes exist"} {
		if err := api.nodesReady(t.Context(), want); err == nil || err.Error() != complaint {
			t.Errorf("nodesReady(%d): %v, want %s", want, err, complaint)
		}
	}
	stranger := newClient(server.URL, nil)
	defer stranger.close()
	if err := stranger.createNodes(t.Context(), 1); err == nil {
		t.Error("a server of an unknown authority is trusted")
	}
}

func TestIsTaken(t *testing.T) {
	listener, err := listen(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	port, err := portOf(listener)
	if err != nil {
		t.Fatal(err)
	}
	if !isTaken(t.Context(), port) {
		t.Error("a port with a listener counts as free")
	}
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if isTaken(t.Context(), port) {
		t.Error("a free port counts as taken")
	}
}

func TestAwaitExplainsATimeout(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFiles(inst.logs(), map[string][]byte{"kwok.log": []byte("no stages found\n")}); err != nil {
		t.Fatal(err)
	}
	timeout, complaint := errors.New("not ready after 1ms"), errors.New("0 of 2 nodes exist")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Millisecond, timeout)
	defer cancel()
	err = (&fleet{instance: inst}).await(ctx, "nodes", "kwok", func(context.Context) error { return complaint })
	if !errors.Is(err, timeout) || !errors.Is(err, complaint) || !strings.Contains(err.Error(), "no stages found") {
		t.Errorf("got %v", err)
	}
}

func TestAwaitReturnsWhatEndedIt(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	exit := &exitError{component: "etcd"}
	err := (&fleet{}).await(ctx, "API server", "kube-apiserver", func(context.Context) error {
		cancel(exit)
		return errors.New("connection refused")
	})
	if !errors.Is(err, exit) || strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v, want only that etcd ended", err)
	}
}

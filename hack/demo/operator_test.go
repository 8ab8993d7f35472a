// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWithToken(t *testing.T) {
	const admin = `{
		"kind": "Config", "apiVersion": "v1", "current-context": "here",
		"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:6443", "certificate-authority-data": "Q0E="}}],
		"contexts": [{"name": "here", "context": {"cluster": "c", "user": "admin", "namespace": "n"}}],
		"users": [{"name": "admin", "user": {"client-key-data": "S0VZ"}}]
	}`
	config, err := withToken([]byte(admin), "t0ken")
	if err != nil {
		t.Fatal(err)
	}
	var got any
	if err := json.Unmarshal(config, &got); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	want := object{
		"kind": "Config", "apiVersion": "v1", "current-context": "demoapp-controller",
		"clusters": []any{object{"name": "c", "cluster": object{
			"server": "https://127.0.0.1:6443", "certificate-authority-data": "Q0E=",
		}}},
		"contexts": []any{object{"name": "demoapp-controller", "context": object{
			"cluster": "c", "user": "demoapp-controller",
		}}},
		"users": []any{object{"name": "demoapp-controller", "user": object{"token": "t0ken"}}},
	}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWithTokenRefusesInvalidConfig(t *testing.T) {
	for name, config := range map[string]string{
		"YAML instead of JSON": "kind: Config",
		"no current context":   `{"clusters": [], "contexts": null}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := withToken([]byte(config), "t0ken"); err == nil {
				t.Errorf("withToken() = %s, want an error", got)
			}
		})
	}
}

func TestLogTail(t *testing.T) {
	log := newLog(t)
	op := &operator{log: log}
	if got := op.logTail(2); got != "" {
		t.Errorf("logTail(2) of an empty log = %q", got)
	}
	if _, err := log.WriteString("a\nb\nc\n"); err != nil {
		t.Fatal(err)
	}
	for lines, want := range map[int]string{2: "b\nc", 9: "a\nb\nc"} {
		if got := op.logTail(lines); got != want {
			t.Errorf("logTail(%d) = %q, want %q", lines, got, want)
		}
	}
	for range 2 {
		if err := op.stop(); err != nil {
			t.Errorf("stop of an operator that never started: %v", err)
		}
	}
}

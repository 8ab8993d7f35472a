// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestInstanceNames(t *testing.T) {
	l, err := newLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		valid bool
	}{
		{name: "default", valid: true},
		{name: "a", valid: true},
		{name: "tmp-12-abc", valid: true},
		{name: ""},
		{name: "-a"},
		{name: "a-"},
		{name: "A"},
		{name: "../a"},
		{name: "a.lock"},
		{name: "a23456789-123456789-123456789-123456789-1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := l.instance(test.name)
			if (err == nil) != test.valid {
				t.Errorf("instance(%q): %v, want valid: %t", test.name, err, test.valid)
			}
		})
	}
}

func TestForgetLeavesNothing(t *testing.T) {
	l := layout{cache: t.TempDir()}
	inst, err := l.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	if err := inst.forget(); err != nil {
		t.Errorf("forget what never was: %v", err)
	}
	if err := writeState(inst, state{Phase: phaseReady}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(inst.supervisorLog(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := inst.forget(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(l.clusters(), "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestKeepOnlyLogs(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{inst.logs(), inst.pki(""), inst.data(), inst.config("")} {
		if err := writeFiles(dir, map[string][]byte{"file": nil}); err != nil {
			t.Fatal(err)
		}
	}
	if err := inst.keepOnlyLogs(); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(inst.dir, "*"))
	if err != nil || len(left) != 1 || left[0] != inst.logs() {
		t.Errorf("left %q, %v", left, err)
	}
}

func TestStateRoundTrip(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readState(inst); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a state: %v", err)
	}
	for _, want := range []phase{phaseStarting, phaseReady} {
		written := state{Phase: want, Components: []identity{{Name: "etcd", PID: 7, Started: "1"}}}
		if err := writeState(inst, written); err != nil {
			t.Fatal(err)
		}
		got, err := readState(inst)
		if err != nil || got.Phase != want || len(got.Components) != 1 || got.Components[0] != written.Components[0] {
			t.Errorf("got %+v, %v; want %+v", got, err, written)
		}
	}
}

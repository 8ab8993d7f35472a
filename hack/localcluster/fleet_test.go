// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestRestart(t *testing.T) {
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := layout{cache: t.TempDir()}.instance("test")
	if err != nil {
		t.Fatal(err)
	}
	lost := make(chan error, 2)
	fleet, err := newFleet(inst, []string{t.TempDir(), filepath.Dir(sleep)}, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := fleet.stop(); err != nil {
			t.Error(err)
		}
	}()
	if err := fleet.launch(t.Context(), component{name: "sleep", args: []string{"600"}}); err != nil {
		t.Fatal(err)
	}
	before := fleet.children[0]

	err = fleet.restart(t.Context(), "sleep")
	if err != nil {
		t.Fatal(err)
	}
	if before.alive() || !fleet.children[0].alive() || len(fleet.children) != 1 {
		t.Errorf("old alive: %t; %d children", before.alive(), len(fleet.children))
	}
	recorded, err := readState(inst)
	if err != nil || recorded.Components[0] != fleet.children[0].identity {
		t.Errorf("state is %+v, %v", recorded.Components, err)
	}
	select {
	case err := <-lost:
		t.Errorf("the restart is taken for the end of the component: %v", err)
	default:
	}
	if err := fleet.restart(t.Context(), "none"); err == nil {
		t.Error("no error for a component that does not run")
	}
	// A later end is noticed.
	if err := fleet.children[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exitError
	if err := <-lost; !errors.As(err, &exit) || exit.component != "sleep" {
		t.Errorf("lost with %v", err)
	}
}

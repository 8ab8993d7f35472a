// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// phase is a phase of an instance's life.
type phase string

const (
	phaseStarting phase = "starting"
	phaseReady    phase = "ready"
	phaseFailed   phase = "failed"
)

// state is the supervisor's record of its instance for the other commands.
type state struct {
	Phase phase `json:"phase"`
	// Failure says why, in phase failed.
	Failure string `json:"failure,omitempty"`
	// Components are the processes of the instance, apart from the supervisor.
	Components []identity `json:"components,omitempty"`
	// Connection is complete from phase ready on.
	Connection connection `json:"connection"`
}

// connection is all that a client needs to use an instance: the line that "up --foreground" prints.
type connection struct {
	// Name is the instance's name.
	Name string `json:"name"`
	// Dir is the instance's folder. It is removed with the instance, including files of clients.
	Dir string `json:"dir"`
	// Server is the URL of the API server.
	Server string `json:"server"`
	// Kubeconfig is the path of a kubeconfig file for a cluster administrator.
	Kubeconfig string `json:"kubeconfig"`
	// CAFile is the path of the certificate authority of the API server.
	CAFile string `json:"caFile"`
	// AuditLog is the path of the audit log, JSON lines; empty without --audit.
	AuditLog string `json:"auditLog,omitempty"`
	// Version is the version of Kubernetes, such as v1.33.13.
	Version string `json:"version"`
	// BinDir is the folder of the programs of Kubernetes, kubectl among them.
	BinDir string `json:"binDir"`
	// LogDir is the folder of the components' logs.
	LogDir string `json:"logDir"`
	// Nodes is the number of simulated nodes.
	Nodes int `json:"nodes"`
	// Containerd is the socket of containerd of the real node; empty without one.
	Containerd string `json:"containerd,omitempty"`
	// PID is the supervisor's process id.
	PID int `json:"pid"`
}

// readState returns the state of an instance, and an error that wraps os.ErrNotExist if no state
// exists.
func readState(inst instance) (state, error) {
	content, err := os.ReadFile(inst.stateFile())
	if err != nil {
		return state{}, fmt.Errorf("read state: %w", err)
	}
	var s state
	if err := json.Unmarshal(content, &s); err != nil {
		return state{}, fmt.Errorf("read state %s: %w", inst.stateFile(), err)
	}
	return s, nil
}

// writeState replaces the state of an instance. A reader sees the old state or the new one, never a
// part.
func writeState(inst instance, s state) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode state: %w", err)
	}
	draft := inst.stateFile() + ".new"
	if err := writeFiles(filepath.Dir(draft), map[string][]byte{filepath.Base(draft): content}); err != nil {
		return err
	}
	if err := os.Rename(draft, inst.stateFile()); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

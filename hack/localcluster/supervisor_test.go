// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWatchLifeline(t *testing.T) {
	tests := []struct {
		name, input string
		lost        bool
	}{
		{name: "closed", input: "", lost: true},
		{name: "something else, then closed", input: "hello\n", lost: true},
		{name: "detached", input: "detach\n"},
		{name: "something else, then detached", input: "hello\ndetach\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lost := false
			watchLifeline(strings.NewReader(test.input), func() { lost = true })
			if lost != test.lost {
				t.Errorf("lost: %t, want %t", lost, test.lost)
			}
		})
	}
}

func TestTakeOverRemovesRemains(t *testing.T) {
	l := layout{cache: t.TempDir()}
	instances := map[string]instance{}
	for _, name := range []string{"mine", "other", "tmp-1", "tmp-2"} {
		inst, err := l.instance(name)
		if err != nil {
			t.Fatal(err)
		}
		// The recorded component has the number of this process, but another start time: the
		// process must survive.
		if err := writeState(inst, state{Components: []identity{{Name: "etcd", PID: os.Getpid(), Started: "0"}}}); err != nil {
			t.Fatal(err)
		}
		instances[name] = inst
	}
	alive, err := tryLock(instances["tmp-2"].lockFile())
	if err != nil {
		t.Fatal(err)
	}
	defer alive.release()

	lock, err := (&supervisor{layout: l, instance: instances["mine"]}).takeOver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.remove()
	for name, stays := range map[string]bool{"mine": false, "other": true, "tmp-1": false, "tmp-2": true} {
		if got := isDir(instances[name].dir); got != stays {
			t.Errorf("%s is there: %t, want %t", name, got, stays)
		}
	}
	holder, err := lockHolder(instances["mine"])
	if err != nil || holder.PID != os.Getpid() || !holder.alive() {
		t.Errorf("lock holder %+v, %v; want this process", holder, err)
	}
}

func TestMatches(t *testing.T) {
	tests := []struct {
		name  string
		asked up
		conn  connection
		want  bool
	}{
		{name: "nothing special asked", asked: up{nodes: 2}, conn: connection{Nodes: 5, AuditLog: "log"}, want: true},
		{name: "audit log asked and there", asked: up{audit: true}, conn: connection{AuditLog: "log"}, want: true},
		{name: "audit log asked and not there", asked: up{audit: true}},
		{name: "other number of nodes", asked: up{nodes: 2, nodesGiven: true}, conn: connection{Nodes: 5}},
		{name: "same number of nodes", asked: up{nodes: 5, nodesGiven: true}, conn: connection{Nodes: 5}, want: true},
		{name: "another version", asked: up{version: "1.3"}, conn: connection{Version: "v1.30.14"}},
		{name: "the same version", asked: up{version: "1.30"}, conn: connection{Version: "v1.30.14"}, want: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if err := test.asked.matches(test.conn); (err == nil) != test.want {
				t.Errorf("got %v, want a match: %t", err, test.want)
			}
		})
	}
}

func TestCommandsOnWhatIsNotUp(t *testing.T) {
	cache := t.TempDir()
	tests := []struct {
		args    []string
		wantErr string
	}{
		{args: []string{"down"}},
		{args: []string{"down", "--name", "never-was"}},
		{args: []string{"down", "--name", "No Name"}, wantErr: `name "No Name"`},
		{args: []string{"kubeconfig"}, wantErr: `instance "default" is not up`},
		{args: []string{"up", "--nodes", "-1"}, wantErr: "--nodes=-1"},
		{args: []string{"up", "now"}, wantErr: "unknown command"},
	}
	for _, test := range tests {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			cmd := newCommand()
			cmd.SetArgs(append(test.args, "--cache", cache))
			cmd.SetOut(t.Output())
			err := cmd.ExecuteContext(t.Context())
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("got %v, want %q", err, test.wantErr)
			}
		})
	}
	left, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	if err = errors.Join(err, os.RemoveAll(cache)); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestEverythingListensOnLoopbackOnly(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	kubernetes, err := controlPlane("")
	if err != nil {
		t.Fatal(err)
	}
	p := ports{apiServer: 1, etcd: 2, etcdPeer: 3}
	tests := []struct {
		component component
		// want are the flags that define where the component listens.
		want []string
	}{
		{component: etcd(inst, p), want: []string{"--listen-client-urls=https://127.0.0.1:2", "--listen-peer-urls=https://127.0.0.1:3"}},
		{component: apiServer(inst, p, serverOptions{}), want: []string{"--bind-address=127.0.0.1", "--secure-port=1"}},
		{component: controllerManager(inst, 0), want: []string{"--secure-port=0"}},
		{component: scheduler(inst), want: []string{"--secure-port=0"}},
		{component: kwok(inst, false)},
	}
	for _, test := range tests {
		t.Run(test.component.name, func(t *testing.T) {
			for _, flag := range test.want {
				if !slices.Contains(test.component.args, flag) {
					t.Errorf("%q lacks %s", test.component.args, flag)
				}
			}
			for _, arg := range test.component.args {
				if strings.HasPrefix(arg, "--server-address") || strings.HasPrefix(arg, "--node-port") {
					t.Errorf("%s makes kwok listen", arg)
				}
			}
			if !slices.ContainsFunc(slices.Concat(kubernetes.binaries, surroundings.binaries), func(b binary) bool { return b.name == test.component.name }) {
				t.Errorf("%s is not built", test.component.name)
			}
		})
	}
}

func TestShardedWatchesWhereServed(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	for minor, want := range map[int]bool{30: false, 35: false, 36: true, 37: true} {
		got := slices.Contains(apiServer(inst, ports{}, serverOptions{minor: minor}).args, "--feature-gates=ShardedListAndWatch=true")
		if got != want {
			t.Errorf("Kubernetes 1.%d: gate set: %t, want %t", minor, got, want)
		}
	}
}

func TestControllersOfCloudsAreOffWhereTheyExist(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	for minor, want := range map[int]bool{30: true, 36: true, 37: false} {
		got := strings.Contains(strings.Join(controllerManager(inst, minor).args, " "), "-node-route-controller")
		if got != want {
			t.Errorf("Kubernetes 1.%d: controllers of clouds named: %t, want %t", minor, got, want)
		}
	}
}

func TestAuditOnRequest(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, audit := range []bool{false, true} {
		got := slices.Contains(apiServer(inst, ports{}, serverOptions{audit: audit}).args, "--audit-log-path="+inst.auditLog())
		if got != audit {
			t.Errorf("audit asked: %t, got: %t", audit, got)
		}
	}
}

func TestConfigFiles(t *testing.T) {
	files, err := configFiles()
	if err != nil {
		t.Fatal(err)
	}
	var policy map[string]any
	if err := yaml.Unmarshal(files[auditPolicyFile], &policy); err != nil || policy["kind"] != "Policy" {
		t.Errorf("audit policy %v, %v", policy, err)
	}

	var names []string
	for document := range bytes.SplitSeq(files[stagesFile], []byte("\n---\n")) {
		var stage struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal(document, &stage); err != nil || stage.Kind != "Stage" {
			t.Errorf("document %q: %+v, %v", document, stage, err)
		}
		names = append(names, stage.Metadata.Name)
	}
	want := []string{
		"node-becomes-ready", "node-heartbeat",
		"pod-becomes-ready", "pod-cannot-pull-image", "pod-of-job-completes", "pod-ends",
	}
	if !slices.Equal(names, want) {
		t.Errorf("stages %q, want %q", names, want)
	}
}

func TestPickPorts(t *testing.T) {
	p, err := pickPorts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p.apiServer == p.etcd || p.etcd == p.etcdPeer || p.apiServer == p.etcdPeer {
		t.Errorf("ports are not distinct: %+v", p)
	}
}

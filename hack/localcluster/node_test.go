// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

func TestNodeFiles(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	files, err := (&realNode{instance: inst}).files()
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if bytes.Contains(content, []byte("<no value>")) {
			t.Errorf("%s lacks a value: %s", name, content)
		}
		var got map[string]any
		switch filepath.Ext(name) {
		case ".yaml":
			err = yaml.UnmarshalStrict(content, &got)
		case ".conflist":
			err = json.Unmarshal(content, &got)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	// These files keep the node off the machine's settings.
	for name, want := range map[string][]string{
		"kubelet.yaml":    {"cgroupRoot: /localcluster-x\n", "makeIPTablesUtilChains: false\n", "volumePluginDir: /var/lib/"},
		"kube-proxy.yaml": {"mode: nftables\n", "conntrack: {maxPerCore: 0, min: 0}\n"},
	} {
		for _, line := range want {
			if !bytes.Contains(files[name], []byte(line)) {
				t.Errorf("%s lacks %q", name, line)
			}
		}
	}
}

func TestAPIServerOfRealNodeIsReachable(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	args := apiServer(inst, ports{}, serverOptions{realNode: true}).args
	for _, want := range []string{"--bind-address=0.0.0.0", "--advertise-address=" + nodeAddress} {
		if !slices.Contains(args, want) {
			t.Errorf("%q lacks %s", args, want)
		}
	}
	if slices.Contains(args, "--endpoint-reconciler-type=none") {
		t.Error("the Service kubernetes has no endpoint")
	}
}

// TestProvisioner: a claim of the class gets a volume once, and a released volume goes with its directory.
func TestProvisioner(t *testing.T) {
	const claims = `{"items":[
		{"metadata":{"namespace":"a","name":"new","uid":"1"},"spec":{"storageClassName":"directory","accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}},
		{"metadata":{"namespace":"a","name":"bound","uid":"2"},"spec":{"storageClassName":"directory","volumeName":"v"}},
		{"metadata":{"namespace":"a","name":"other","uid":"3"},"spec":{"storageClassName":"other"}},
		{"metadata":{"namespace":"a","name":"block","uid":"4"},"spec":{"storageClassName":"directory","volumeMode":"Block"}},
		{"metadata":{"namespace":"a","name":"exists","uid":"5"},"spec":{"storageClassName":"directory"}}]}`
	const volumes = `{"items":[
		{"metadata":{"name":"pvc-5"}},
		{"metadata":{"name":"pvc-6","annotations":{"pv.kubernetes.io/provisioned-by":"localcluster/directory"}},"spec":{"persistentVolumeReclaimPolicy":"Delete"},"status":{"phase":"Released"}},
		{"metadata":{"name":"pvc-7","annotations":{"pv.kubernetes.io/provisioned-by":"localcluster/directory"}},"spec":{"persistentVolumeReclaimPolicy":"Retain"},"status":{"phase":"Released"}},
		{"metadata":{"name":"foreign"},"spec":{"persistentVolumeReclaimPolicy":"Delete"},"status":{"phase":"Released"}}]}`
	answers := map[string]string{
		"/apis/storage.k8s.io/v1/storageclasses": `{"items":[{"metadata":{"name":"directory"},"provisioner":"localcluster/directory","reclaimPolicy":"Delete"},{"metadata":{"name":"other"},"provisioner":"x"}]}`,
		"/api/v1/persistentvolumeclaims":         claims,
		"/api/v1/persistentvolumes":              volumes,
	}
	var mutex sync.Mutex
	var writes []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(answers[r.URL.Path]))
			return
		}
		var body struct {
			Metadata metadata `json:"metadata"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // A deletion has no body.
		mutex.Lock()
		defer mutex.Unlock()
		writes = append(writes, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+body.Metadata.Name))
	}))
	defer server.Close()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "pvc-6", "data"), 0o700); err != nil {
		t.Fatal(err)
	}

	err := provisionOnce(t.Context(), newClient(server.URL, nil), dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"DELETE /api/v1/persistentvolumes/pvc-6", "POST /api/v1/persistentvolumes pvc-1"}; !slices.Equal(writes, want) {
		t.Errorf("writes %q, want %q", writes, want)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "pvc-1" {
		t.Errorf("directories %v, %v", entries, err)
	}
}

func TestRecipes(t *testing.T) {
	recipes, err := readRecipes()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, r := range recipes {
		if len(r.Tags) == 0 || len(r.Entrypoint)+len(r.Command) == 0 {
			t.Errorf("%s has no tag, or starts nothing", r.Name)
		}
		for _, tag := range r.Tags {
			if seen[tag] != "" {
				t.Errorf("%s is the tag of %s and %s", tag, seen[tag], r.Name)
			}
			seen[tag] = r.Name
		}
	}
	if seen["localcluster/pause:1"] == "" {
		t.Error("containerd.toml names an image that is not made")
	}
}

func TestPackageFiles(t *testing.T) {
	got, err := packageFiles([]byte("'http://deb/pool/b/bash_5.2_amd64.deb' bash_5.2_amd64.deb 1490772 SHA256:x\n\n"))
	if err != nil || !slices.Equal(got, []string{"bash_5.2_amd64.deb"}) {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := packageFiles([]byte("'http://deb/x' ../x 1 SHA256:x\n")); err == nil {
		t.Errorf("accepted a path: %q", got)
	}
}

func TestNodeFlags(t *testing.T) {
	for name, test := range map[string]struct {
		flags up
		valid bool
	}{
		"simulated":                {up{node: simulatedNode}, true},
		"unknown":                  {up{node: "virtual"}, false},
		"images without real node": {up{node: simulatedNode, images: []string{"a.tar"}}, false},
	} {
		if err := test.flags.validate(); (err == nil) != test.valid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

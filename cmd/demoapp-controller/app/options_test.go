// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

// parse returns the options for args.
func parse(t *testing.T, args ...string) *Options {
	t.Helper()
	options := NewOptions()
	fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
	options.AddFlags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return options
}

func TestFlagsAndDefaults(t *testing.T) {
	fs := pflag.NewFlagSet(t.Name(), pflag.ContinueOnError)
	NewOptions().AddFlags(fs)
	got := map[string]string{}
	fs.VisitAll(func(f *pflag.Flag) { got[f.Name] = f.DefValue })
	want := map[string]string{
		"kubeconfig":                      "",
		"namespaces":                      "[]",
		"controllers":                     "[*]",
		"workers":                         "10",
		"resync-period":                   "10m0s",
		"audit-namespace":                 "demoapp-audit",
		"audit-retention":                 "2160h0m0s",
		"license-url":                     "",
		"license-retry":                   "2m0s",
		"cluster-domain":                  "cluster.local",
		"max-concurrent-rollouts":         "10",
		"rollout-failure-threshold":       "3",
		"allow-system-namespaces":         "[]",
		"allowed-registries":              "[]",
		"shared-dependencies":             "[]",
		"webapp-cleanup-url":              "",
		"blocked-images":                  "[]",
		"leader-elect":                    "true",
		"leader-elect-lease-duration":     "15s",
		"leader-elect-renew-deadline":     "10s",
		"leader-elect-retry-period":       "1s",
		"leader-elect-resource-namespace": "",
		"leader-elect-resource-name":      "demoapp-controller",
		"metrics-bind-address":            ":8080",
		"metrics-secure":                  "false",
		"metrics-cert-dir":                "",
		"health-probe-bind-address":       ":8081",
		"platform-hosts":                  "[]",
		"image-registry":                  "",
		"images":                          "[]",
		"default-backup-destination":      "[]",
		"pprof-bind-address":              "0",
		"shards":                          "1",
		"shutdown-timeout":                "25s",
		"logging-format":                  "text",
		"watches-file":                    "", "chart-cache-dir": "", "registry-config": "", "status-manifest": "false",
		"webhook-bind-address": "0", "webhook-cert-dir": "", "webhook-hosts": "[]", "approved-registries": "[]",
		"v": "0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags and defaults (-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want []string // the prefix of each line
	}{
		{name: "defaults"},
		{
			name: "one line for each invalid flag, in the order of --help",
			args: []string{"--workers=0", "--shutdown-timeout=0", "--resync-period=-1s", "-v8", "--logging-format=yaml"},
			want: []string{"--workers=0: ", "--resync-period=-1s: ", "--shutdown-timeout=0s: ", "--logging-format=yaml: ", "-v=8: "},
		},
		{
			name: "namespace that is no system namespace", args: []string{"--allow-system-namespaces=team-a"},
			want: []string{`--allow-system-namespaces=team-a: "team-a" is none of the system namespaces: kube-system, kube-public, kube-node-lease`},
		},
		{
			name: "invalid namespace of shared dependencies", args: []string{"--shared-dependencies=platform,Not_One"},
			want: []string{`--shared-dependencies=platform,Not_One: "Not_One" is not the name of a namespace`},
		},
		{name: "invalid audit namespace", args: []string{"--audit-namespace="}, want: []string{"--audit-namespace=: "}},
		{name: "no audit retention", args: []string{"--audit-retention=0"}},
		{name: "negative audit retention", args: []string{"--audit-retention=-1h"}, want: []string{"--audit-retention=-1h0m0s: must be longer than 0"}},
		{name: "license server", args: []string{"--license-url=https://license.example.com/{{.Namespace}}/{{.Name}}?image={{.Image}}"}},
		{
			name: "license server without TLS",
			args: []string{"--license-url=http://license.example.com/?token=hunter2"},
			want: []string{"--license-url=(not shown): must begin with https://"},
		},
		{
			name: "license server with an unknown field",
			args: []string{"--license-url=https://license.example.com/{{.Spec}}"},
			want: []string{"--license-url=(not shown): may use .Namespace, .Name and .Image only"},
		},
		{name: "no rollout limits", args: []string{"--max-concurrent-rollouts=0", "--rollout-failure-threshold=0"}},
		{
			name: "negative rollout limits", args: []string{"--max-concurrent-rollouts=-1", "--rollout-failure-threshold=-1"},
			want: []string{"--max-concurrent-rollouts=-1: must be at least 1", "--rollout-failure-threshold=-1: must be at least 1"},
		},
		{name: "domain with a slash", args: []string{"--cluster-domain=corp/x"}, want: []string{"--cluster-domain=corp/x: must be a DNS domain"}},
		{name: "license retry below the minimum", args: []string{"--license-retry=10ms"}, want: []string{"--license-retry=10ms: must be at least 1s"}},
		{name: "registries", args: []string{"--allowed-registries=docker.io/library, registry.example.com:5000"}},
		{
			name: "webhook",
			args: []string{"--webhook-bind-address=:9443", "--webhook-hosts=127.0.0.1,webhook.system.svc", "--approved-registries=docker.io"},
		},
		{
			name: "invalid webhook",
			args: []string{"--webhook-bind-address=9443", "--webhook-hosts=a_b", "--approved-registries=https://quay.io"},
			want: []string{
				"--webhook-bind-address=9443: is not an address; use host:port",
				`--webhook-hosts=a_b: "a_b" is neither`,
				`--approved-registries=https://quay.io: "https://quay.io" is not a registry: `,
			},
		},
		{
			name: "approved registries without a webhook",
			args: []string{"--approved-registries=docker.io,quay.io"},
			want: []string{"--approved-registries=docker.io,quay.io: has no effect without the webhook; set --webhook-bind-address"},
		},
		{name: "no approved registries without a webhook", args: []string{"--approved-registries="}},
		{name: "no registries", args: []string{"--allowed-registries="}},
		{name: "hosts of namespaces", args: []string{"--platform-hosts=shop.example.com=team-a,example.org=team-b"}},
		{name: "images", args: []string{"--image-registry=registry.example.com/hub", "--images=postgres:12=postgres:12.22,postgres:18=registry.example.com:5000/postgres:18"}},
		{name: "destination of backups", args: []string{"--default-backup-destination=type=s3,bucket=backups", "--default-backup-destination=region=eu-central-1"}},
		{
			name: "destination of backups without a bucket",
			args: []string{"--default-backup-destination=type=s3"},
			want: []string{"--default-backup-destination: bucket: is missing: set the name of a bucket"},
		},
		{
			name: "mirror that is a URL",
			args: []string{"--image-registry=https://registry.example.com"},
			want: []string{`--image-registry=https://registry.example.com: "https://registry.example.com" is not a registry: `},
		},
		{
			name: "registry that is a URL",
			args: []string{"--allowed-registries=docker.io,https://quay.io"},
			want: []string{`--allowed-registries=docker.io,https://quay.io: "https://quay.io" is not a registry: `},
		},
		{name: "cleanup server", args: []string{"--webapp-cleanup-url=https://cleanup.example.com/{{.Namespace}}/{{.Name}}"}},
		{
			name: "cleanup server without TLS",
			args: []string{"--webapp-cleanup-url=http://cleanup.example.com/?token=hunter2"},
			want: []string{"--webapp-cleanup-url=(not shown): must begin with https://"},
		},
		{
			name: "cleanup server with an unknown field",
			args: []string{"--webapp-cleanup-url=https://cleanup.example.com/{{.Image}}"},
			want: []string{"--webapp-cleanup-url=(not shown): may use .Namespace and .Name only"},
		},
		{name: "blocked images", args: []string{"--blocked-images=nginx, quay.io/team/web:v1"}},
		{
			name: "blocked image that is a URL",
			args: []string{"--blocked-images=nginx,https://quay.io/web"},
			want: []string{`--blocked-images=nginx,https://quay.io/web: "https://quay.io/web" is not an image reference: `},
		},
		{
			name: "a host in upper case",
			args: []string{"--platform-hosts=Shop.example.com=team-a"},
			want: []string{"--platform-hosts=Shop.example.com=team-a: must be a host and a namespace, for example "},
		},
		{
			name: "image of an unknown version",
			args: []string{"--images=postgres:17.2=registry.example.com/postgres:17.2"},
			want: []string{`--images: "postgres:17.2" is none of the operator's images: `},
		},
		{name: "empty registry", args: []string{"--allowed-registries=quay.io,"}, want: []string{`--allowed-registries=quay.io,: "" is not a registry: `}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			if err := parse(t, test.args...).Validate(); err != nil {
				got = strings.Split(err.Error(), "\n")
			}
			if len(got) != len(test.want) {
				t.Fatalf("Validate() = %q, want %q", got, test.want)
			}
			for i, line := range got {
				if !strings.HasPrefix(line, test.want[i]) {
					t.Errorf("line %d = %q, want it to begin with %q", i, line, test.want[i])
				}
			}
		})
	}
}

// TestSystemNamespacesAreRefused: unless a flag names them.
func TestSystemNamespacesAreRefused(t *testing.T) {
	tests := map[string]struct {
		args    []string
		refused []string
	}{
		"by default":              {nil, systemNamespaces},
		"allowed":                 {[]string{"--allow-system-namespaces=kube-system"}, []string{"kube-public", "kube-node-lease"}},
		"one of those to watch":   {[]string{"--namespaces=kube-public,team-a"}, []string{"kube-system", "kube-node-lease"}},
		"all of them are allowed": {[]string{"--allow-system-namespaces=" + strings.Join(systemNamespaces, ",")}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := parse(t, test.args...)
			var refused []string
			for _, namespace := range append(systemNamespaces, "team-a", "") {
				why := options.refuse(namespace)
				if why == "" {
					continue
				}
				refused = append(refused, namespace)
				if !strings.Contains(why, "--allow-system-namespaces="+namespace) {
					t.Errorf("the message does not name the flag: %s", why)
				}
			}
			if !slices.Equal(refused, test.refused) {
				t.Errorf("refused %q, want %q", refused, test.refused)
			}
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
)

func TestReplacer(t *testing.T) {
	all := Names{Module: "git.acme.io/team/bridge", Name: "acme-bridge", Group: "apps.acme.io", Namespace: "bridge-system"}
	tests := []struct {
		name           string
		names          Names
		text, expected string
	}{
		{"import path", all, `"github.com/example/demoapp-controller/pkg/helm"`, `"git.acme.io/team/bridge/pkg/helm"`},
		{"OpenAPI model", all, "com.github.example.demoapp-controller.pkg.apis", "io.acme.git.team.bridge.pkg.apis"},
		{"repository", all, "ghcr.io/example/demoapp-controller:v1", "ghcr.io/team/bridge:v1"},
		{"regular expression", all, `https://github\.com/example/demoapp-controller//`, `https://git\.acme\.io/team/bridge//`},
		{"program", all, "bin/demoapp-controller --help", "bin/acme-bridge --help"},
		{"metric", all, "demoapp_controller_build_info", "acme_bridge_build_info"},
		{"environment variable", all, "DEMOAPP_CONTROLLER_BINARY", "ACME_BRIDGE_BINARY"},
		{"alert", all, "DemoAppControllerDown", "AcmeBridgeDown"},
		{"group", all, "demoapps.demo.example.com", "demoapps.apps.acme.io"},
		{"JSONPath", all, `{.metadata.labels.demo\.example\.com/name}`, `{.metadata.labels.apps\.acme\.io/name}`},
		{"subgroup", all, "children.demo.example.com", "children.apps.acme.io"},
		{"namespaces", all, "demoapp-system demoapp-audit", "bridge-system bridge-audit"},
		{"record label", all, "engine.demo.example.com/owner", "engine.demo.example.com/owner"},
		{"record label in JSONPath", all, `engine\.demo\.example\.com/owner`, `engine\.demo\.example\.com/owner`},
		{"other kind", all, "webapp.example.com", "webapp.example.com"},
		{"copyright", all, "Copyright The DemoApp Controller Authors.", "Copyright The DemoApp Controller Authors."},
		{
			"name alone keeps the module",
			Names{Name: "acme-bridge"},
			"github.com/example/demoapp-controller/cmd/demoapp-controller", "github.com/example/demoapp-controller/cmd/acme-bridge",
		},
		{"namespace without -system", Names{Namespace: "bridge"}, "demoapp-system demoapp-audit", "bridge bridge-audit"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			replacer, err := test.names.replacer()
			if err != nil {
				t.Fatal(err)
			}
			if got := replacer.Replace(test.text); got != test.expected {
				t.Errorf("got %q, expected %q", got, test.expected)
			}
		})
	}
}

func TestInvalidNames(t *testing.T) {
	tests := []struct {
		name     string
		names    Names
		expected string
	}{
		{"none", Names{}, "set at least one of MODULE, NAME, GROUP and NAMESPACE"},
		{"module without host", Names{Module: "bridge"}, `MODULE="bridge" must be a module path`},
		{"upper case", Names{Name: "Bridge"}, `NAME="Bridge" must be a DNS label`},
		{"long", Names{Name: strings.Repeat("a", 41)}, "it has more than 40 characters"},
		{"group without dot", Names{Group: "apps"}, `GROUP="apps" must be an API group: it has no dot`},
		{"namespace", Names{Namespace: "a.b"}, `NAMESPACE="a.b" must be a DNS label`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := test.names.replacer(); err == nil || !strings.Contains(err.Error(), test.expected) {
				t.Errorf("got %v, expected %s", err, test.expected)
			}
		})
	}
}

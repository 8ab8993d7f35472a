// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/pkg/operator"
)

// admissionKind returns the kind of the webhook, which is the last one.
func admissionKind(t *testing.T, args ...string) operator.Kind {
	t.Helper()
	registered, err := kinds(t.Context(), parse(t, args...))
	if err != nil {
		t.Fatal(err)
	}
	kind := registered[len(registered)-1]
	if kind.Name != webhookConfigurations {
		t.Fatalf("the last kind is %s", kind.Name)
	}
	return kind
}

func TestWebhookIsOff(t *testing.T) {
	registered, err := kinds(t.Context(), parse(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range registered {
		if kind.Name == webhookConfigurations {
			t.Error("the webhook is on without its flag")
		}
	}
}

// TestWebhookRunsOnEveryReplica holds that the webhook has services, which standbys run too, and no
// controller.
func TestWebhookRunsOnEveryReplica(t *testing.T) {
	// The kinds of --controllers do not turn the webhook off.
	kind := admissionKind(t, "--webhook-bind-address=127.0.0.1:0", "--controllers=website")

	parts, err := newEnvironment(t, nil).Build(kind)
	if err != nil {
		t.Fatal(err)
	}
	var services []string
	for _, service := range parts.Services {
		services = append(services, service.Name)
	}
	if diff := cmp.Diff([]string{"certificates of the webhook", "webhook"}, services); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if len(kind.Resources) > 0 || len(parts.Controllers) > 0 || len(parts.Checks) != 1 {
		t.Errorf("%d resources, %d controllers, %d checks", len(kind.Resources), len(parts.Controllers), len(parts.Checks))
	}
	if err := parts.Checks[0].Ready(); err == nil || !strings.Contains(err.Error(), "demoapp-system/demoapp-webhook-certificates") {
		t.Errorf("ready without a certificate: %v", err)
	}
}

func TestWebhookFailsAtTheStart(t *testing.T) {
	tests := []struct {
		name, want string
		args       []string
	}{
		{
			name: "no certificate in the directory", want: "--webhook-cert-dir=/does/not/exist: reading the serving certificate: ",
			args: []string{"--webhook-bind-address=127.0.0.1:0", "--webhook-cert-dir=/does/not/exist"},
		},
		{
			name: "no such address", want: "--webhook-bind-address=192.0.2.1:9443: listen tcp",
			args: []string{"--webhook-bind-address=192.0.2.1:9443"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := newEnvironment(t, nil).Build(admissionKind(t, test.args...))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error = %v, want %s", err, test.want)
			}
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"strings"
	"testing"
)

func TestHasGatewayAPI(t *testing.T) {
	const ask = "kubectl get crd httproutes.gateway.networking.k8s.io --ignore-not-found -o name"
	tests := map[string]struct {
		answer  answer
		want    bool
		wantErr string
	}{
		"it has":                     {answer: answer{output: "customresourcedefinition/x\n"}, want: true},
		"it has not":                 {answer: answer{output: "\n"}},
		"a cluster that is not sure": {answer: answer{output: "refused\n", err: errors.New("exit status 1")}, wantErr: "look for the Gateway API: refused: exit status 1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := hasGatewayAPI(t.Context(), &fakeShell{answers: map[string]answer{ask: test.answer}})
			if got != test.want || message(err) != test.wantErr {
				t.Errorf("%t, error %q; want %t, %q", got, message(err), test.want, test.wantErr)
			}
		})
	}
}

// TestGatewayAPIOfTheClusterIsLeftAlone asserts that the tour removes only what it installed.
func TestGatewayAPIOfTheClusterIsLeftAlone(t *testing.T) {
	for _, installed := range []bool{true, false} {
		touches := 0
		for _, a := range gateway(installed).acts {
			if strings.Contains(a.command, "kubectl create -f") || strings.Contains(a.command, "delete crd") {
				touches++
			}
		}
		if want := map[bool]int{true: 0, false: 2}[installed]; touches != want {
			t.Errorf("there already: %t; %d commands touch the CRD, want %d", installed, touches, want)
		}
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fakeOperator is an operator for tests that only read the tour.
type fakeOperator struct{}

func (fakeOperator) command() string                       { return "operator &" }
func (fakeOperator) useToken(string) error                 { return nil }
func (fakeOperator) start(context.Context) (string, error) { return "", nil }
func (fakeOperator) end(context.Context) (string, error)   { return "", nil }
func (fakeOperator) newerCommand() string                  { return "newer-operator &" }

func (fakeOperator) startNewer(context.Context) (string, error) { return "", nil }

// fakeLicenses is a license server for tests that only read the tour.
type fakeLicenses struct{}

func (fakeLicenses) grant(context.Context) (string, error) { return "", nil }

// TestTourIsWellFormed asserts the rules for entries of the tour's table.
func TestTourIsWellFormed(t *testing.T) {
	file := regexp.MustCompile(`\b(artifacts|test)/\S+`)
	titles := map[string]bool{}
	for _, s := range tour(fakeOperator{}, fakeLicenses{}, clusterFeatures{simulatedNodes: true}) {
		if s.title == "" || s.note == "" || titles[s.title] {
			t.Errorf("step %q: title and note must be there, and the title its own", s.title)
		}
		titles[s.title] = true
		for _, a := range s.acts {
			for _, path := range file.FindAllString(a.command, -1) {
				if _, err := os.Stat(filepath.Join("..", "..", path)); err != nil {
					t.Errorf("step %q uses a file that does not exist: %v", s.title, err)
				}
			}
			if a.effect != nil && (!strings.Contains(a.effect.watch, "--watch") || a.effect.before == a.effect.after) {
				t.Errorf("step %q: effect %+v cannot be seen", s.title, *a.effect)
			}
		}
	}
}

// TestTourStaysInItsNamespace asserts that the tour changes only what leave removes.
func TestTourStaysInItsNamespace(t *testing.T) {
	clusterWide := []string{
		"kubectl create namespace " + tourNamespace,
		"kubectl label namespace " + tourNamespace + " ",
		"kubectl apply -f " + crdFiles,
		"echo '{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"IngressClass\",\"metadata\":{\"name\":\"" + tourClass + "\"}",
		"kubectl delete ingressclass " + tourClass,
		"kubectl apply -f " + namespaceFile + " -f " + rbacFile,
		"kubectl wait -f " + crdFiles + " ",
		"kubectl -n " + systemNamespace + " create token ",
		"kubectl -n " + auditNamespace + " get ",
		"kubectl wait -f artifacts/kinds/",
		createVolumes().command,
		"kubectl label --local -f " + routeCRDFile + " " + tourLabel + "=true -o yaml | kubectl create -f -",
		"kubectl wait crd/" + routeCRD + " ",
		"kubectl delete crd -l " + tourLabel + "=true",
		fakeOperator{}.command(),
		fakeOperator{}.newerCommand(),
		"# ", // A comment, which is not run.
	}
	for _, kind := range optInKinds {
		clusterWide = append(clusterWide, "kubectl apply -f "+kind.file("crd")+" -f "+kind.file("rbac"))
	}
	for _, s := range append(tour(fakeOperator{}, fakeLicenses{}, clusterFeatures{simulatedNodes: true}), gateway(true)) {
		for _, a := range s.acts {
			allowed := strings.HasPrefix(a.command, in(""))
			for _, prefix := range clusterWide {
				allowed = allowed || strings.HasPrefix(a.command, prefix)
			}
			if !allowed {
				t.Errorf("step %q: %q leaves the namespace", s.title, a.command)
			}
		}
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// Commands of enterForeign.
const (
	askServer  = "kubectl config view --minify -o jsonpath='{.clusters[0].cluster.server}'"
	askRemains = "kubectl get namespaces -l demo.example.com/tour=true -o name"
	askAudit   = "kubectl get namespace demoapp-audit --ignore-not-found -o name"
	askPresent = "kubectl get namespace/demoapp-tour namespace/demoapp-system " +
		"clusterrole/demoapp-controller clusterrolebinding/demoapp-controller " +
		"customresourcedefinition/as.example.com customresourcedefinition/bs.example.com --ignore-not-found -o name"
	askCRDs = "kubectl get customresourcedefinition as.example.com bs.example.com --ignore-not-found -o custom-columns=:metadata.name"
)

// crds are the CRDs of these tests.
var crds = []string{"as.example.com", "bs.example.com"}

func TestEnterForeign(t *testing.T) {
	tests := map[string]struct {
		answers map[string]answer
		// wantErr is a part of the error, "" for none.
		wantErr       string
		wantKeepAudit bool
		wantDeletes   bool
	}{
		"a cluster without the operator": {},
		"the audit namespace is kept where it was there before": {
			answers:       map[string]answer{askAudit: {output: "namespace/demoapp-audit\n"}},
			wantKeepAudit: true,
		},
		"a cluster with the operator": {
			answers: map[string]answer{askPresent: {output: "namespace/demoapp-system\ncustomresourcedefinition/x\n"}},
			wantErr: "this cluster has namespace/demoapp-system, customresourcedefinition/x already",
		},
		"the remains of an earlier tour": {
			answers:     map[string]answer{askRemains: {output: "namespace/demoapp-tour\n"}},
			wantDeletes: true,
		},
		"a cluster that does not answer": {
			answers: map[string]answer{askRemains: {output: "connection refused\n", err: errors.New("exit status 1")}},
			wantErr: "connection refused: exit status 1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sh := &fakeShell{answers: test.answers}
			got, err := enterForeign(t.Context(), sh, &screen{out: &bytes.Buffer{}}, crds)
			switch {
			case test.wantErr == "" && err != nil:
				t.Fatal(err)
			case test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)):
				t.Fatalf("error %v, want %q", err, test.wantErr)
			case err == nil && got.keepAudit != test.wantKeepAudit:
				t.Errorf("keepAudit is %t", got.keepAudit)
			}
			deletes := slices.ContainsFunc(sh.asked, func(c string) bool { return strings.Contains(c, " delete ") })
			if deletes != test.wantDeletes {
				t.Errorf("deletes: %t, want %t; asked %q", deletes, test.wantDeletes, sh.asked)
			}
		})
	}
}

func TestLeaveForeign(t *testing.T) {
	const (
		deleteBoth = "kubectl -n demoapp-tour delete as.example.com,bs.example.com --all --timeout=20s"
		deleteOne  = "kubectl -n demoapp-tour delete bs.example.com --all --timeout=20s"
		listBoth   = "kubectl -n demoapp-tour get as.example.com,bs.example.com -o name"
		stop       = "(the operator stops)"
		deleteAll  = "kubectl delete namespace demoapp-tour demoapp-system demoapp-audit --ignore-not-found --timeout=60s"
		deleteTwo  = "kubectl delete namespace demoapp-tour demoapp-system --ignore-not-found --timeout=60s"
		deleteOwn  = "kubectl -n demoapp-audit delete configmaps -l demo.example.com/source-namespace=demoapp-tour " +
			"--ignore-not-found --timeout=60s"
		deleteCRDs  = "kubectl delete crd -l demo.example.com/tour=true --ignore-not-found --timeout=60s"
		deletePatch = `kubectl -n demoapp-tour patch b.example.com/stuck --type=merge -p '{"metadata":{"finalizers":null}}'`
		// Those of the tour are deleted, those that a provisioner made are awaited.
		deleteVolumes = "kubectl delete persistentvolumes -l demo.example.com/tour=true --ignore-not-found --timeout=60s"
		listVolumes   = `kubectl get persistentvolumes -o jsonpath='{.items[?(@.spec.claimRef.namespace=="demoapp-tour")].metadata.name}'`
		awaitVolumes  = "kubectl wait persistentvolumes pvc-1 pvc-2 --for=delete --timeout=60s"
	)
	tests := map[string]struct {
		answers   map[string]answer
		keepAudit bool
		// wantOrder are commands in the expected order, possibly with others between them.
		wantOrder []string
		wantNot   []string
		// wantErr is a part of the error, "" for none.
		wantErr string
	}{
		"custom resources are deleted while the operator runs": {
			answers:   map[string]answer{askCRDs: {output: "as.example.com\nbs.example.com\n"}},
			wantOrder: []string{deleteBoth, stop, listBoth, deleteAll, deleteCRDs},
			wantNot:   []string{deletePatch, deleteOwn},
		},
		"custom resources that are recreated are deleted again": {
			answers:   map[string]answer{askCRDs: {output: "as.example.com\nbs.example.com\n"}},
			wantOrder: []string{deleteBoth, deleteBoth, stop},
		},
		"custom resources that stay lose their finalizers": {
			answers: map[string]answer{
				askCRDs:    {output: "as.example.com\nbs.example.com\n"},
				deleteBoth: {err: errors.New("timeout")},
				listBoth:   {output: "b.example.com/stuck\n"},
			},
			wantOrder: []string{deleteBoth, stop, listBoth, deletePatch, deleteAll},
		},
		"a kind that is not served is left out": {
			answers:   map[string]answer{askCRDs: {output: "bs.example.com\n"}},
			wantOrder: []string{deleteOne, stop},
			wantNot:   []string{deleteBoth},
		},
		"a tour without CRDs deletes no custom resources": {
			wantOrder: []string{stop, deleteAll},
			wantNot:   []string{deleteBoth, listBoth},
		},
		"an audit namespace of others keeps their records": {
			keepAudit: true,
			wantOrder: []string{stop, deleteOwn, deleteTwo},
			wantNot:   []string{deleteAll},
		},
		"volumes that the tour created are deleted": {
			wantOrder: []string{deleteAll, deleteVolumes, listVolumes},
			wantNot:   []string{awaitVolumes},
		},
		"volumes of a provisioner are awaited": {
			answers:   map[string]answer{listVolumes: {output: "pvc-1 pvc-2\n"}},
			wantOrder: []string{deleteAll, deleteVolumes, listVolumes, awaitVolumes},
		},
		"volumes that a StorageClass retains are an error": {
			answers: map[string]answer{
				listVolumes:  {output: "pvc-1 pvc-2\n"},
				awaitVolumes: {output: "timed out on pvc-1\n", err: errors.New("exit status 1")},
			},
			wantOrder: []string{awaitVolumes},
			wantErr:   "timed out on pvc-1: exit status 1",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			sh := &fakeShell{answers: test.answers}
			f := &foreignStage{shell: sh, screen: &screen{out: &bytes.Buffer{}}, crds: crds, keepAudit: test.keepAudit}
			err := f.leave(t.Context(), func() error {
				if !slices.Contains(sh.asked, stop) {
					sh.asked = append(sh.asked, stop)
				}
				return nil
			})
			if (err != nil) != (test.wantErr != "") || !strings.Contains(message(err), test.wantErr) {
				t.Fatalf("error %v, want %q", err, test.wantErr)
			}
			rest := sh.asked
			for _, want := range test.wantOrder {
				i := slices.Index(rest, want)
				if i < 0 {
					t.Fatalf("%q is not where it should be in %q", want, sh.asked)
				}
				rest = rest[i+1:]
			}
			for _, unwanted := range test.wantNot {
				if slices.Contains(sh.asked, unwanted) {
					t.Errorf("ran %q", unwanted)
				}
			}
		})
	}
}

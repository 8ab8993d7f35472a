// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestLatest(t *testing.T) {
	version := func(uid, rv string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: keyA.Namespace, Name: keyA.Name, UID: types.UID(uid), ResourceVersion: rv,
		}}
	}
	tests := []struct {
		name    string
		written []*corev1.ConfigMap
		cached  *corev1.ConfigMap
		want    *corev1.ConfigMap
		kept    bool
	}{
		{"nothing written", nil, version("x", "5"), version("x", "5"), false},
		{"the cache is behind", []*corev1.ConfigMap{version("x", "10")}, version("x", "9"), version("x", "10"), true},
		{"the cache has caught up", []*corev1.ConfigMap{version("x", "10")}, version("x", "10"), version("x", "10"), false},
		{"the cache is ahead", []*corev1.ConfigMap{version("x", "9")}, version("x", "10"), version("x", "10"), false},
		{"created again after the write", []*corev1.ConfigMap{version("x", "10")}, version("y", "12"), version("y", "12"), false},
		{"the cache has the predecessor", []*corev1.ConfigMap{version("y", "12")}, version("x", "10"), version("y", "12"), true},
		{"the cache lacks the object", []*corev1.ConfigMap{version("x", "10")}, nil, nil, false},
		{
			"written out of order",
			[]*corev1.ConfigMap{version("x", "12"), version("x", "11")},
			version("x", "10"), version("x", "12"), true,
		},
		{"no resource versions", []*corev1.ConfigMap{version("x", "")}, version("x", ""), version("x", ""), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var latest Latest[*corev1.ConfigMap]
			for _, obj := range test.written {
				latest.Wrote(obj)
			}
			got := latest.Newest(keyA, test.cached)
			if (got == nil) != (test.want == nil) {
				t.Fatalf("Newest is %v, want %v", got, test.want)
			}
			if got != nil && (got.UID != test.want.UID || got.ResourceVersion != test.want.ResourceVersion) {
				t.Errorf("Newest is %s@%s, want %s@%s", got.UID, got.ResourceVersion, test.want.UID, test.want.ResourceVersion)
			}
			if _, kept := latest.written[keyA]; kept != test.kept {
				t.Errorf("kept = %t, want %t", kept, test.kept)
			}
			latest.Forget(keyA)
			if len(latest.written) != 0 {
				t.Error("Forget keeps the object")
			}
		})
	}
}

func TestLatestKeepsNoVersionThatTheCacheHas(t *testing.T) {
	version := func(rv string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: keyA.Namespace, Name: keyA.Name, ResourceVersion: rv}}
	}
	for seen, kept := range map[string]int{"9": 1, "10": 0, "11": 0} {
		t.Run(seen, func(t *testing.T) {
			var latest Latest[*corev1.ConfigMap]
			latest.Wrote(version("10"))

			latest.Seen(version(seen))

			if len(latest.written) != kept {
				t.Errorf("%d versions are kept, want %d", len(latest.written), kept)
			}
		})
	}
}

func TestLatestGone(t *testing.T) {
	var latest Latest[*corev1.ConfigMap]
	object := func(uid types.UID) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: keyA.Namespace, Name: keyA.Name, UID: uid, ResourceVersion: "5",
		}}
	}
	latest.Wrote(object("x"))
	latest.Gone(object("x"))
	steps := []struct {
		name   string
		cached *corev1.ConfigMap
		want   types.UID // "" for none
		kept   bool
	}{
		{"the cache is behind", object("x"), "", true},
		{"the cache is still behind", object("x"), "", true},
		{"created again", object("y"), "y", false},
		{"created again, next pass", object("y"), "y", false},
	}
	for _, step := range steps {
		got := latest.Newest(keyA, step.cached)
		if (got == nil) != (step.want == "") || got != nil && got.UID != step.want {
			t.Errorf("%s: Newest is %v, want %q", step.name, got, step.want)
		}
		if _, kept := latest.gone[keyA]; kept != step.kept {
			t.Errorf("%s: kept = %t, want %t", step.name, kept, step.kept)
		}
	}
	latest.Gone(object("y"))
	if got := latest.Newest(keyA, nil); got != nil || len(latest.gone) != 0 {
		t.Errorf("after the cache has caught up: %v, kept %v", got, latest.gone)
	}
	latest.Gone(object("y"))
	latest.Forget(keyA)
	if len(latest.gone) != 0 {
		t.Error("Forget keeps the UID")
	}
}

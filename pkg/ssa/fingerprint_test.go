// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"bytes"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestFingerprint(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: metav1.ManagedFieldsOperationApply, Subresource: subresource,
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	ours := entry("ours", "", `{"f:data":{"f:key":{}}}`)
	timed := ours
	timed.Time = &metav1.Time{Time: time.Unix(5, 0)}
	// Statuses of existing objects hold fingerprints: their format does not change.
	const baseline = "30921c65d9cdd5afd5524e0b0da32eec"
	tests := map[string]struct {
		managed []metav1.ManagedFieldsEntry
		want    string
	}{
		"nothing":              {nil, ""},
		"ours":                 {[]metav1.ManagedFieldsEntry{ours}, baseline},
		"beside other entries": {[]metav1.ManagedFieldsEntry{entry("theirs", "", `{}`), entry("ours", "status", `{}`), ours}, baseline},
		"with a time":          {[]metav1.ManagedFieldsEntry{timed}, baseline + "@5"},
		"of another manager":   {[]metav1.ManagedFieldsEntry{entry("theirs", "", `{}`)}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Fingerprint(tc.managed, "ours"); got != tc.want {
				t.Errorf("fingerprint = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestInServerOrderLeavesOtherText(t *testing.T) {
	if bad := []byte("[]"); !bytes.Equal(inServerOrder(bad), bad) {
		t.Error("a text that is no set of fields was changed")
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/helm/live"
	"github.com/example/demoapp-controller/pkg/ssa"
)

func TestCompare(t *testing.T) {
	want := InventoryEntry{UID: "a", Digest: "1"}
	is := func(uid, digest string) *live.Object {
		object := &live.Object{Trace: ssa.Trace{Fingerprint: digest}}
		object.UID = types.UID(uid)
		return object
	}
	tests := map[string]struct {
		got     *live.Object
		doubted bool
		want    DriftKind
	}{
		"as it was":                        {is("a", "1"), false, ""},
		"as it was, with a time":           {is("a", "1@5"), false, ""},
		"gone":                             {nil, false, DriftMissing},
		"another object":                   {is("b", "1"), false, DriftReplaced},
		"another object, and changed":      {is("b", "2"), false, DriftReplaced},
		"a field of ours was changed":      {is("a", "2"), false, DriftChanged},
		"maybe changed in the same second": {is("a", "1"), true, DriftChanged},
		"we own nothing of it anymore":     {is("a", ""), false, DriftChanged},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := compare(want, tc.got, tc.doubted); got != tc.want {
				t.Errorf("compare = %q, want %q", got, tc.want)
			}
		})
	}
}

func TestFingerprint(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{
			Manager: manager, Operation: operation, Subresource: subresource, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(fields),
		}
	}
	const apply, update = metav1.ManagedFieldsOperationApply, metav1.ManagedFieldsOperationUpdate
	ours := entry(FieldManager, apply, "", `{"f:data":{"f:key":{}}}`)
	baseline := fingerprint([]metav1.ManagedFieldsEntry{ours})
	if len(baseline) != 32 {
		t.Errorf("fingerprint is %q, want 16 bytes in hex", baseline)
	}
	later := ours
	later.Time = &metav1.Time{Time: time.Unix(5, 0)}
	tests := map[string]struct {
		managed []metav1.ManagedFieldsEntry
		same    bool
	}{
		"alone": {[]metav1.ManagedFieldsEntry{ours}, true},
		"others own fields of their own": {[]metav1.ManagedFieldsEntry{
			entry("kubectl", update, "", `{"f:data":{"f:other":{}}}`), entry(FieldManager, apply, "status", `{}`), ours,
		}, true},
		"another time":    {[]metav1.ManagedFieldsEntry{later}, false},
		"a field is lost": {[]metav1.ManagedFieldsEntry{entry(FieldManager, apply, "", `{"f:data":{}}`)}, false},
		"a field more":    {[]metav1.ManagedFieldsEntry{entry(FieldManager, apply, "", `{"f:data":{"f:key":{},"f:more":{}}}`)}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := fingerprint(tc.managed); (got == baseline) != tc.same {
				t.Errorf("fingerprint = %q, baseline is %q, want same %t", got, baseline, tc.same)
			}
		})
	}
	none := map[string][]metav1.ManagedFieldsEntry{
		"no managedFields":      nil,
		"another manager":       {entry("kubectl", apply, "", `{}`)},
		"another operation":     {entry(FieldManager, update, "", `{}`)},
		"only of a subresource": {entry(FieldManager, apply, "status", `{}`)},
		"without fields":        {{Manager: FieldManager, Operation: apply}},
	}
	for name, managed := range none {
		t.Run(name, func(t *testing.T) {
			if got := fingerprint(managed); got != "" {
				t.Errorf("fingerprint = %q, want none", got)
			}
		})
	}
}

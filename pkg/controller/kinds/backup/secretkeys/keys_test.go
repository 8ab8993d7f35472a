// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package secretkeys

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestKeysOfManagedFields(t *testing.T) {
	tests := map[string]struct {
		// fields are the managed fields of each client.
		fields  []string
		keys    []string
		unknown bool
	}{
		"one client":       {[]string{`{"f:data": {".": {}, "f:username": {}, "f:password": {}}, "f:type": {}}`}, []string{"password", "username"}, false},
		"two clients":      {[]string{`{"f:data": {"f:b": {}, "f:a": {}}}`, `{"f:data": {"f:a": {}, "f:c": {}}}`}, []string{"a", "b", "c"}, false},
		"stringData":       {[]string{`{"f:stringData": {"f:a": {}}}`}, []string{"a"}, false},
		"a dotted key":     {[]string{`{"f:data": {"f:tls.crt": {}, "f:f:x": {}}}`}, []string{"f:x", "tls.crt"}, false},
		"no data":          {[]string{`{"f:type": {}}`}, nil, false},
		"invalid fields":   {[]string{`{"f:data": []}`, `{"f:data": {"f:a": {}}}`}, []string{"a"}, false},
		"other keys":       {[]string{`{"f:data": {"f:a": {}, "f:other": {}}, "f:stringData": {"f:other": {}}}`}, []string{"a"}, false},
		"no managedFields": {nil, nil, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			whole := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "login", UID: "1", ResourceVersion: "2", Annotations: map[string]string{"large": "annotation"},
			}}
			for _, fields := range test.fields {
				whole.ManagedFields = append(whole.ManagedFields, metav1.ManagedFieldsEntry{FieldsV1: metav1.NewFieldsV1(fields)})
			}

			got := reduce(whole, []string{"username", "password", "a", "b", "c", "f:x", "tls.crt"})

			want := &secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login", UID: "1", ResourceVersion: "2"}, keys: test.keys, unknown: test.unknown,
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(secret{})); diff != "" {
				t.Errorf("cached Secret (-want +got):\n%s", diff)
			}
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestRecordName(t *testing.T) {
	deletedAt := time.Unix(1700000000, 999)
	long := func(n int) string { return strings.Repeat("a", n) }
	tests := []struct {
		name           string
		namespace, app string
		want           string
		wantLen        int
		// other is another namespace and name, whose record name must differ.
		other [2]string
	}{
		{name: "short", namespace: "ns", app: "web", want: "ns-web-1700000000"},
		{name: "at the limit", namespace: long(63), app: long(178), want: long(63) + "-" + long(178) + "-1700000000"},
		{name: "one character over the limit", namespace: long(63), app: long(179), wantLen: 253, other: [2]string{long(63), long(180)}},
		{name: "same text, other namespace", namespace: long(63), app: long(200), wantLen: 253, other: [2]string{long(62), long(201)}},
		{name: "truncated at a dot", namespace: long(63), app: long(160) + strings.Repeat(".", 40) + "x", other: [2]string{long(63), long(160) + "." + long(40)}},
		{name: "truncated at a dash", namespace: long(63), app: long(160) + strings.Repeat("-", 40) + "x", other: [2]string{long(63), long(160) + "." + long(40)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := recordName(test.namespace, test.app, deletedAt)
			if test.want != "" {
				if got != test.want {
					t.Errorf("name is %s, want %s", got, test.want)
				}
			}
			if test.wantLen != 0 {
				if len(got) != test.wantLen {
					t.Errorf("length is %d, want %d", len(got), test.wantLen)
				}
			}
			if problems := validation.IsDNS1123Subdomain(got); problems != nil {
				t.Errorf("%s is not a valid name: %v", got, problems)
			}
			if !strings.HasSuffix(got, "-1700000000") {
				t.Errorf("%s does not end with the time", got)
			}
			if other := test.other; other[0] != "" && recordName(other[0], other[1], deletedAt) == got {
				t.Errorf("%s is also the name for %v", got, other)
			}
		})
	}
}

// spec and state are the sections of a test's record.
type spec struct {
	Message string                `json:"message,omitempty"`
	Values  *runtime.RawExtension `json:"values,omitempty"`
}

type state struct {
	Notes []string `json:"notes,omitempty"`
}

func recordOf(spec spec, state state) Record {
	return Record{
		Namespace: "ns", Name: "a", UID: "uid", DeletedAt: time.Date(2026, 1, 2, 5, 4, 5, 0, time.FixedZone("CET", 2*60*60)),
		Sections: map[string]any{"spec": spec, "status": state},
	}
}

func values(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func TestRecordData(t *testing.T) {
	const bytes100k = 100_000
	// The digest is the output of: printf %s '{"message":"hello"}' | sha256sum.
	tests := []struct {
		name    string
		record  Record
		reduced bool
		// spec and status are the stored texts; "" is not compared.
		spec, status string
		// omitted are the paths of the digests.
		omitted []string
	}{
		{
			name:   "small",
			record: recordOf(spec{Message: "<b>&amp;</b>"}, state{Notes: []string{"one"}}),
			spec:   `{"message":"<b>&amp;</b>"}`, status: `{"notes":["one"]}`,
		},
		{
			name:   "values that the API server escaped",
			record: recordOf(spec{Values: values(`{"a":"\u003cb\u003E\u0026","b":"\\u003c","c":"\\\u003c"}`)}, state{}),
			spec:   `{"values":{"a":"<b>&","b":"\\u003c","c":"\\<"}}`, status: `{}`,
		},
		{
			name:   "large values",
			record: recordOf(spec{Message: "kept", Values: values(`{"k":"` + strings.Repeat("<", bytes100k) + `"}`)}, state{Notes: []string{"one"}}),
			status: `{"notes":["one"]}`, omitted: []string{"spec.values"},
		},
		{
			name:    "large values and notes",
			record:  recordOf(spec{Message: "kept", Values: values(`{"k":"` + strings.Repeat("v", bytes100k) + `"}`)}, state{Notes: []string{strings.Repeat("n", bytes100k)}}),
			omitted: []string{"spec.values", "status.notes"},
		},
		{
			name:    "large notes, smaller values fit",
			record:  recordOf(spec{Values: values(`{"k":"` + strings.Repeat("v", 30_000) + `"}`)}, state{Notes: []string{strings.Repeat("n", 40_000)}}),
			omitted: []string{"status.notes"},
		},
		{
			name:    "reduced",
			record:  recordOf(spec{Message: "hello"}, state{Notes: []string{"one"}}),
			reduced: true,
			spec:    `{"omitted":true,"sha256":"9b2d43affbf49a367028df2e1414f84c0e099ac98c3d54a8a80157fd7771af25","bytes":19}`,
			omitted: []string{"spec", "status"},
		},
		{
			name:   "many small fields",
			record: Record{DeletedAt: time.Unix(0, 0), Sections: map[string]any{"spec": manyFields(1000), "status": state{}}},
			status: `{}`, omitted: []string{"spec"},
		},
		{
			name:   "not a JSON object",
			record: Record{DeletedAt: time.Unix(0, 0), Sections: map[string]any{"spec": strings.Repeat("x", bytes100k), "status": state{}}},
			status: `{}`, omitted: []string{"spec"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			data, err := test.record.data(test.reduced)
			if err != nil {
				t.Fatal(err)
			}
			size := 0
			for key, value := range data {
				size += len(key) + len(value)
			}
			if size > MaxRecordBytes-metadataBytes {
				t.Errorf("%d bytes", size)
			}
			for key, want := range map[string]string{"spec": test.spec, "status": test.status} {
				if want != "" && data[key] != want {
					t.Errorf("%s is %s, want %s", key, data[key], want)
				}
			}
			if diff := cmp.Diff(test.omitted, omissions(t, data)); diff != "" {
				t.Errorf("omitted (-want +got):\n%s", diff)
			}
		})
	}
}

func manyFields(count int) map[string]string {
	fields := map[string]string{}
	for i := range count {
		fields[strings.Repeat("k", 10)+string(rune('a'+i%26))+strings.Repeat("x", i/26)] = strings.Repeat("v", 100)
	}
	return fields
}

// omissions returns the sections and fields that are replaced by digests.
func omissions(t *testing.T, data map[string]string) []string {
	t.Helper()
	var found []string
	for _, key := range []string{"spec", "status"} {
		var fields map[string]any
		if err := json.Unmarshal([]byte(data[key]), &fields); err != nil {
			t.Fatalf("%s is not a JSON object: %v", key, err)
		}
		if fields["omitted"] == true {
			found = append(found, key)
		}
		for name, value := range fields {
			if field, ok := value.(map[string]any); ok && field["omitted"] == true {
				found = append(found, key+"."+name)
			}
		}
	}
	return found
}

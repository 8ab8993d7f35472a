// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/test/cluster"
)

func TestParseKinds(t *testing.T) {
	tests := map[string]struct {
		text string
		want []kindCount
	}{
		"two kinds":         {text: "website=9, appstack=2", want: []kindCount{{"website", 9}, {"appstack", 2}}},
		"no number":         {text: "website"},
		"zero":              {text: "website=0"},
		"no kind":           {text: "=20"},
		"path to elsewhere": {text: "../website=20"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseKinds(test.text)

			if !slices.Equal(got, test.want) || (err == nil) != (test.want != nil) {
				t.Errorf("got %v and error %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestCountSent(t *testing.T) {
	requests := []cluster.AuditEvent{
		{Verb: "patch", Resource: "services"},
		{Verb: "get", Resource: "services"},
		{Verb: "patch", Resource: "websites", Subresource: "status"},
		{Verb: "create", Resource: "events"},
		{Verb: "patch", Resource: "events"},
	}

	if got, want := countSent(requests), (sent{requests: 3, statuses: 1, events: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestByOperatorSelectsNoLists(t *testing.T) {
	const operator, other = "system:serviceaccount:demoapp-system:demoapp-controller", "system:admin"
	tests := map[string]struct {
		event cluster.AuditEvent
		want  bool
	}{
		"write":         {cluster.AuditEvent{User: operator, Verb: "patch"}, true},
		"read":          {cluster.AuditEvent{User: operator, Verb: "get"}, true},
		"list":          {cluster.AuditEvent{User: operator, Verb: "list"}, false},
		"watch":         {cluster.AuditEvent{User: operator, Verb: "watch"}, false},
		"other's write": {cluster.AuditEvent{User: other, Verb: "patch"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := byOperator(test.event); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func TestDriftedField(t *testing.T) {
	child := func(kind, extra string) write {
		return patch(objects+strings.ToLower(kind)+"s/"+sampleName,
			`{"apiVersion":"v1","kind":"`+kind+`","metadata":{"name":"`+sampleName+`","labels":{"app":"x","app.kubernetes.io/managed-by":"y"},`+
				`"ownerReferences":[{"uid":"top","controller":true}]}`+extra+`}`)
	}
	grandchild := patch(objects+"configmaps/other", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other","ownerReferences":[{"uid":"db","controller":true}]},"data":{"k":"v"}}`)
	tests := map[string]struct {
		writes    []write
		kind      string
		path      []string
		wantError bool
	}{
		"text of a ConfigMap": {writes: []write{child("Service", ""), child("ConfigMap", `,"data":{"b":"1","a":"2"}`)}, kind: "ConfigMap", path: []string{"data", "a"}},
		"key with the owner's name": {
			writes: []write{child("ConfigMap", `,"data":{"`+sampleName+`.json":"1"}`)}, kind: "ConfigMap", path: []string{"metadata", "labels", "app"},
		},
		"label of the first other child": {writes: []write{child("Service", ""), child("Secret", "")}, kind: "Service", path: []string{"metadata", "labels", "app"}},
		"only a child of a child":        {writes: []write{grandchild}, wantError: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			field, kind, err := driftOf(sample{uid: "top", writes: test.writes})

			if (err != nil) != test.wantError {
				t.Fatalf("error is %v", err)
			}
			if kind != test.kind || !slices.Equal(field.path, test.path) {
				t.Errorf("field is %v of %q, want %v of %q", field.path, kind, test.path, test.kind)
			}
			if err == nil && (field.name("app-00001") != "app-00001" || field.resource.Resource != strings.ToLower(test.kind)+"s") {
				t.Errorf("object is %s %s", field.resource.Resource, field.name("app-00001"))
			}
		})
	}
}

func TestNamedIsUnique(t *testing.T) {
	example := func(spec map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"kind": "K", "metadata": map[string]any{"name": "example", "namespace": "shop"}, "spec": spec}}
	}
	tests := map[string]struct {
		folder string
		spec   map[string]any
		want   map[string]any
	}{
		"nothing unique": {"website", map[string]any{"html": "x"}, map[string]any{"html": "x"}},
		"host": {
			"ecommerceplatform",
			map[string]any{"ingress": map[string]any{"host": "shop.example.com"}},
			map[string]any{"ingress": map[string]any{"host": "a-shop.example.com"}},
		},
		"no host": {"ecommerceplatform", map[string]any{}, map[string]any{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &subject{folder: test.folder, example: example(test.spec)}

			got, err := s.named("a")

			want := map[string]any{"kind": "K", "metadata": map[string]any{"name": "a"}, "spec": test.want}
			if err != nil || !reflect.DeepEqual(got.Object, want) {
				t.Errorf("got %v and error %v, want %v", got.Object, err, want)
			}
		})
	}
}

func TestCheckFloorOfAKind(t *testing.T) {
	times := func(applied, ready int) installTimes {
		return installTimes{applied: time.Duration(applied) * time.Second, ready: time.Duration(ready) * time.Second}
	}
	tests := map[string]struct {
		floor, operator installTimes
		wantErr         string
	}{
		"floor is faster":                       {floor: times(1, 2), operator: times(2, 3)},
		"floor is slower to apply the children": {floor: times(3, 3), operator: times(2, 4), wantErr: "children applied"},
		"floor is slower to be ready":           {floor: times(1, 5), operator: times(2, 4), wantErr: "ready"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := kindReport{kind: "Website", count: 20, floor: test.floor, operator: test.operator}

			err := r.checkFloor()

			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("got %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestVolumeIsForItsClaim(t *testing.T) {
	fast := "fast"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "data", UID: "u"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &fast, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}},
		},
	}

	volume := volumeFor(claim)

	if ref := volume.Spec.ClaimRef; ref.Namespace != "bench" || ref.Name != "data" || ref.UID != "u" {
		t.Errorf("claim is %+v", ref)
	}
	if volume.Spec.StorageClassName != fast || !reflect.DeepEqual(volume.Spec.AccessModes, claim.Spec.AccessModes) ||
		!reflect.DeepEqual(volume.Spec.Capacity, claim.Spec.Resources.Requests) {
		t.Errorf("volume is %+v", volume.Spec)
	}
}

func TestThousands(t *testing.T) {
	for number, want := range map[int]string{7: "7", 200: "200", 1000: "1,000", 1234567: "1,234,567"} {
		if got := thousands(number); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

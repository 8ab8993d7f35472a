// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/example/demoapp-controller/test/cluster"
)

func TestParseKinds(t *testing.T) {
	tests := map[string]struct {
		text string
		want []kindCount
	}{
		"two kinds":         {text: "website=1000, ecommerceplatform=200", want: []kindCount{{"website", 1000}, {"ecommerceplatform", 200}}},
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

const (
	objects = "/api/v1/namespaces/bench/"
	customs = "/apis/example.com/v1/namespaces/bench/things/"
)

func patch(path, body string) write {
	return write{method: http.MethodPatch, path: path, body: []byte(body)}
}

func pathsOf(writes []write) []string {
	var paths []string
	for _, w := range writes {
		paths = append(paths, w.path+string(w.body))
	}
	return paths
}

func TestLeastWrites(t *testing.T) {
	tests := map[string]struct {
		recorded       []write
		install, ready []string
	}{
		"progressing, then ready": {
			recorded: []write{patch(objects+"services/a", "1"), patch(customs+"a/status", "1"), patch(customs+"a/status", "2")},
			install:  []string{objects + "services/a1", customs + "a/status1"}, ready: []string{customs + "a/status2"},
		},
		"ready at once": {
			recorded: []write{patch(objects+"services/a", "1"), patch(customs+"a/status", "1")},
			install:  []string{objects + "services/a1"}, ready: []string{customs + "a/status1"},
		},
		"repeated writes": {
			recorded: []write{
				patch(objects+"services/a", "1"), patch(customs+"a/status", "1"), patch(objects+"services/a", "2"),
				patch(customs+"a/status", "2"), patch(customs+"a/status", "3"),
			},
			install: []string{objects + "services/a1", customs + "a/status1"}, ready: []string{customs + "a/status3"},
		},
		"creates of one path": {
			recorded: []write{
				{method: http.MethodPost, path: objects + "secrets", body: []byte(`{"metadata":{"name":"a"}}`)},
				{method: http.MethodPost, path: objects + "secrets", body: []byte(`{"metadata":{"name":"b"}}`)},
			},
			install: []string{objects + `secrets{"metadata":{"name":"a"}}`, objects + `secrets{"metadata":{"name":"b"}}`},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			install, ready := leastWrites(test.recorded)

			if got := pathsOf(install); !slices.Equal(got, test.install) {
				t.Errorf("writes of the install are %q, want %q", got, test.install)
			}
			if got := pathsOf(ready); !slices.Equal(got, test.ready) {
				t.Errorf("writes when ready are %q, want %q", got, test.ready)
			}
		})
	}
}

func TestOwnersHaveAStatus(t *testing.T) {
	writes := []write{
		patch(customs+"a/status", "1"), patch(customs+"a/status", "2"), patch(customs+"a-db", ""), patch(customs+"a-db/status", "1"),
	}

	if got := ownersIn(writes); got != 2 {
		t.Errorf("got %d owners, want 2", got)
	}
}

func TestFloorKnowsChildrenThatOwnOthers(t *testing.T) {
	s := sample{uid: "top", writes: []write{
		{path: customs + "a-db", uid: "db", body: []byte(`{"metadata":{"ownerReferences":[{"uid":"top"}]}}`)},
		{path: objects + "secrets/a-db", body: []byte(`{"metadata":{"ownerReferences":[{"uid":"db"}]}}`)},
		{path: customs + "a-leaf", uid: "leaf", body: []byte(`{"metadata":{"uid":"leaf","ownerReferences":[{"uid":"top"}]}}`)},
	}}

	f := newKindFloor(nil, s)

	if want := map[types.UID]bool{"db": true}; !maps.Equal(f.owners, want) {
		t.Errorf("owners are %v, want %v", f.owners, want)
	}
}

func TestWriteForAnotherCustomResource(t *testing.T) {
	w := patch("/apis/example.com/v1/namespaces/bench/things/"+sampleName+"-db",
		`{"metadata":{"name":"`+sampleName+`-db","namespace":"bench","ownerReferences":[{"uid":"old"}]},"spec":{"url":"http://`+sampleName+`.bench.svc"}}`)

	path, body := w.as("app-00007", map[types.UID]types.UID{"old": "new"})

	if want := "/apis/example.com/v1/namespaces/floor/things/app-00007-db"; path != want {
		t.Errorf("path is %s, want %s", path, want)
	}
	want := `{"metadata":{"name":"app-00007-db","namespace":"floor","ownerReferences":[{"uid":"new"}]},"spec":{"url":"http://app-00007.bench.svc"}}`
	if string(body) != want {
		t.Errorf("body is %s, want %s", body, want)
	}
}

// TestProtobufForAnotherCustomResource shows that the lengths within a serialization stay correct.
func TestProtobufForAnotherCustomResource(t *testing.T) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		t.Fatal("no protobuf serializer")
	}
	body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: sampleName + "-db", Namespace: benchNamespace, OwnerReferences: []metav1.OwnerReference{{UID: "00000000-old"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := write{method: http.MethodPost, path: objects + "secrets", contentType: runtime.ContentTypeProtobuf, body: body}

	_, sent := w.as(appName(7), map[types.UID]types.UID{"00000000-old": "00000000-new"})

	var got corev1.Secret
	if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), sent, &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "app-00007-db" || got.Namespace != floorNamespace || got.OwnerReferences[0].UID != "00000000-new" {
		t.Errorf("got %+v", got.ObjectMeta)
	}
	if target := w.target(); target != objects+"secrets/"+sampleName+"-db" {
		t.Errorf("target is %s", target)
	}
}

func TestIsRecorded(t *testing.T) {
	tests := map[string]struct {
		method, path string
		want         bool
	}{
		"apply":                     {http.MethodPatch, objects + "services/a", true},
		"create":                    {http.MethodPost, objects + "secrets", true},
		"read":                      {http.MethodGet, objects + "services/a", false},
		"event":                     {http.MethodPost, "/apis/events.k8s.io/v1/namespaces/bench/events", false},
		"object of other namespace": {http.MethodPatch, "/api/v1/namespaces/other/services/a", false},
		"access review":             {http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := isRecorded(test.method, test.path); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
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

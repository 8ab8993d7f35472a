// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

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

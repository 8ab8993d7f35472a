// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !race

package custom_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/custom"
)

// largest is about the size of the largest object that an API server stores, in bytes.
const largest = 1_400_000

// repeated returns as many repetitions of a text as an object has room for.
func repeated(text string) string { return strings.Repeat(text, largest/len(text)) }

// numbered returns texts with a number in place of each %d, as many as an object has room for.
func numbered(format string) string {
	var all strings.Builder
	for i := 0; all.Len() < largest; i++ {
		all.WriteString(strings.ReplaceAll(format, "%d", fmt.Sprintf("%x", i)))
	}
	return all.String()
}

// described returns an object with members, of which the first ones belong to its metadata.
func described(metadata, rest string) string {
	return `{"apiVersion": "example.com/v1", "kind": "App", "metadata": {"name": "NAME", "namespace": "default", "uid": "u", "resourceVersion": "7", ` +
		`"creationTimestamp": "2026-01-02T03:04:05Z"` + metadata + `}` + rest + `}`
}

// hostile are objects as API servers accept them that take the most memory when they are decoded.
var hostile = map[string]string{
	"objects in a spec":       described("", `, "spec": {"l": [`+repeated(`{"":0},`)+`0]}`),
	"lists in a spec":         described("", `, "spec": {"l": [`+repeated(`[],`)+`0]}`),
	"a text":                  described("", `, "spec": {"a": "`+repeated("x")+`"}`),
	"a text within limits":    described("", `, "spec": {"a": "`+strings.Repeat("<", 1_000_000)+`"}`),
	"nodes within limits":     described("", `, "spec": {"l": [`+strings.Repeat(`{"":0},`, 6_600)+`0]}`),
	"fields":                  described("", numbered(`, "%d": 0`)),
	"labels":                  described(`, "labels": {`+numbered(`"%d": "", `)+`"a": ""}`, ""),
	"annotations":             described(`, "annotations": {`+numbered(`"%d": "", `)[:262_144/12*12]+`"a": ""}`, ""),
	"owner references":        described(`, "ownerReferences": [`+numbered(`{"apiVersion":"v","kind":"k","name":"n","uid":"%d"},`)+`{}]`, ""),
	"finalizers":              described(`, "finalizers": [`+numbered(`"a/%d",`)+`"a/b"]`, ""),
	"managed fields":          described(`, "managedFields": [`+repeated(`{"manager":"m","fieldsV1":{}},`)+`{}]`, ""),
	"conditions":              described("", `, "status": {"conditions": [`+repeated(`{},`)+`{}]}`),
	"conditions in limits":    described("", `, "status": {"conditions": [`+strings.Repeat(`{},`, 19_000)+`{}]}`),
	"inventory":               described("", `, "status": {"inventory": [`+strings.Repeat(`{"kind":"a"},`, 6_000)+`{}]}`),
	"changes in a history":    described("", `, "status": {"history": [{"changed": [`+strings.Repeat(`"",`, 59_000)+`""]}]}`),
	"a manifest":              described("", `, "status": {"deployedRelease": {"name": "a", "revision": 1, "manifest": "`+strings.Repeat("x", 1_000_000)+`"}}`),
	"fields of other writers": described("", `, "status": {"a": [`+repeated(`0,`)+`0]}`),
}

// stream is an API server that answers each request with a list of objects as a watch.
type stream struct {
	objects string
	copies  int
}

// RoundTrip implements http.RoundTripper.
func (s stream) RoundTrip(request *http.Request) (*http.Response, error) {
	reader, writer := io.Pipe()
	go func() {
		for i := range s.copies {
			fmt.Fprintf(writer, "{\"type\":\"ADDED\",\"object\":%s}\n", strings.Replace(s.objects, "NAME", fmt.Sprint("a", i), 1))
		}
		_, _ = io.WriteString(writer, `{"type":"BOOKMARK","object":{"apiVersion":"example.com/v1","kind":"App",`+
			`"metadata":{"resourceVersion":"9","annotations":{"k8s.io/initial-events-end":"true"}}}}`+"\n")
		<-request.Context().Done()
		_ = writer.Close()
	}()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: reader, Request: request,
	}, nil
}

// kept returns the memory that is in use now.
func kept() int64 {
	var now runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&now)
	return int64(now.HeapAlloc)
}

// TestMemoryAtRest: no object in the cache takes more than 4 times its bytes, whatever a tenant
// writes.
func TestMemoryAtRest(t *testing.T) {
	const copies = 8
	version := schema.GroupVersion{Group: "example.com", Version: "v1"}
	for name, object := range hostile {
		t.Run(name, func(t *testing.T) {
			client, err := custom.NewClient(&rest.Config{Host: "http://fake.invalid"}, &http.Client{Transport: stream{object, copies}},
				version.WithKind("App"), version.WithResource("apps"), []string{"kept"})
			if err != nil {
				t.Fatal(err)
			}
			informers, err := client.Informers(nil, labels.Everything())
			if err != nil {
				t.Fatal(err)
			}
			informer, before := informers[""], kept()
			go informer.RunWithContext(t.Context())
			if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
				t.Fatal("the cache is not filled")
			}

			took := (kept() - before) / copies

			if count := len(informer.GetStore().List()); count != copies {
				t.Fatalf("the cache has %d objects", count)
			}
			t.Logf("%d bytes take %d", len(object), took)
			if took > 4*int64(len(object)) {
				t.Errorf("an object of %d bytes takes %d", len(object), took)
			}
			runtime.KeepAlive(informer)
		})
	}
}

// TestContentMemory: the content of no object takes more than 20 MiB in a pass.
func TestContentMemory(t *testing.T) {
	for name, object := range hostile {
		t.Run(name, func(t *testing.T) {
			r, before := decode(t, []byte(object)), kept()

			decoded, err := r.Content()
			if err != nil {
				t.Fatal(err)
			}
			copied := decoded.DeepCopy()

			if took := kept() - before; took > 20<<20 {
				t.Errorf("the content takes %d MiB", took>>20)
			}
			runtime.KeepAlive(decoded)
			runtime.KeepAlive(copied)
			runtime.KeepAlive(r)
		})
	}
}

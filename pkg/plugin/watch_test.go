// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/plugin"
	"github.com/example/demoapp-controller/test/expect"
)

// TestGetWatch: the list is followed by the objects that change, in the same columns.
func TestGetWatch(t *testing.T) {
	t.Parallel()
	w := newAppsWorld(t)
	setState := func(name, state string) {
		w.EditSubresource("DemoApp", "shop/"+name, "demoapp-controller", "status", func(live *unstructured.Unstructured) {
			live.Object["status"] = states[state]
		})
	}
	got := w.watching(t, []func(){
		func() {}, func() {}, // The header and the first row.
		func() { setState("web", "ready") },
		func() { setState("web", "stalled") },
		func() { w.Remove("DemoApp", "shop/db") },
	}, "get", "demoapp", "-w")
	expect.Equal(t, "output", `NAME          READY     STATUS        REVISION   CHART            AGE         WAITS FOR
demoapp/db    Unknown   NotObserved                               <invalid>   operator
demoapp/web   Unknown   NotObserved   2          demo-app@0.1.0   <invalid>   operator
demoapp/web   True      Healthy                                   <invalid>
demoapp/web   False     ValuesInvalid                               <invalid>
demoapp/db    Unknown   NotObserved,Deleting                               <invalid>   operator
`, got)
}

// watching runs a command that does not end by itself. It makes a change after each write to the
// output, and ends the command after the last one.
func (w *releaseWorld) watching(t *testing.T, changes []func(), args ...string) string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &onWrite{}
	out.do = func() {
		if !strings.HasSuffix(out.String(), "\n") {
			return
		}
		if len(changes) == 0 {
			stop()
			return
		}
		change := changes[0]
		changes = changes[1:]
		change()
	}
	var errs onWrite
	errs.do = func() {}
	plugin.Execute(ctx, w.options, append(args, "--kubeconfig="+w.kubeconfig, "--cache-dir="+t.TempDir()),
		genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: &errs})
	return out.String()
}

// TestEvents shows the events of a tree and goes on with new events, also for a new object.
func TestEvents(t *testing.T) {
	t.Parallel()
	w := newAppsWorld(t)
	w.Serve(schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", true)
	app := w.Object("DemoApp", "shop/web")
	pod := func() string {
		w.create(t, "{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web-1, ownerReferences: [{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, name: web, uid: "+string(app.GetUID())+"}]}}")
		return string(w.Object("Pod", "shop/web-1").GetUID())
	}
	event := func(name, kind, object, uid, reason, seconds string) {
		apiVersion := "v1"
		if kind == "DemoApp" {
			apiVersion = "demo.example.com/v1alpha1"
		}
		w.create(t, "{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: "+name+"}, involvedObject: {apiVersion: "+apiVersion+", kind: "+kind+
			", namespace: shop, name: "+object+", uid: "+uid+"}, type: Warning, reason: "+reason+", message: text, lastTimestamp: '1970-01-01T01:06:"+seconds+"Z'}")
	}
	event("b", "DemoApp", "web", string(app.GetUID()), "Second", "20")
	event("a", "DemoApp", "web", string(app.GetUID()), "First", "10")
	event("c", "DemoApp", "db", string(w.Object("DemoApp", "shop/db").GetUID()), "Other", "10")

	got := w.watching(t, []func(){
		func() {}, func() {},
		func() {
			event("d", "DemoApp", "db", string(w.Object("DemoApp", "shop/db").GetUID()), "Other", "30")
			event("e", "Pod", "web-1", pod(), "Third", "40")
		},
	}, "events", "demoapp/web", "-w")

	expect.Equal(t, "output", `AGE   OBJECT        REASON   MESSAGE
30s   DemoApp/web   First    text
20s   DemoApp/web   Second   text
0s    Pod/web-1     Third    text
`, got)
}

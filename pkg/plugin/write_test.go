// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/test/expect"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// newAppsWorld is a release world with a second DemoApp "db", and "web" in another namespace.
func newAppsWorld(t *testing.T) *releaseWorld {
	t.Helper()
	w := newReleaseWorld(t)
	w.create(t, "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {namespace: shop, name: db, labels: {tier: data}}, spec: {message: a}}")
	w.create(t, "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {namespace: bank, name: web}, spec: {message: a}}")
	return w
}

func TestWriteCommands(t *testing.T) {
	t.Parallel()
	const requestedAt = "1970-01-01T01:06:40Z"
	tests := []struct {
		name, args, answer string
		forbidden          bool
		code               int
		out, errors        string
		// written are the annotations by the objects that have any.
		written map[string]map[string]string
	}{
		{
			name: "reconcile one object", args: "reconcile demoapp/web", answer: "y\n", out: "demoapp.demo.example.com/web requested to reconcile\n",
			errors:  "Reconcile DemoApp/web in namespace shop? [y/N] ",
			written: map[string]map[string]string{"shop/web": {"demo.example.com/requested-at": requestedAt}},
		},
		{
			name: "retry by kind and name", args: "retry demoapp web --yes", out: "demoapp.demo.example.com/web requested to retry\n",
			written: map[string]map[string]string{"shop/web": {"demo.example.com/requested-at": requestedAt, "demo.example.com/force-at": requestedAt}},
		},
		{
			name: "suspend a namespace", args: "suspend --all --reason maintenance", answer: "yes\n",
			out:    "demoapp.demo.example.com/db suspended\ndemoapp.demo.example.com/web suspended\n",
			errors: "  DemoApp/db\n  DemoApp/web\nSuspend these 2 objects in namespace shop? [y/N] ",
			written: map[string]map[string]string{
				"shop/db":  {"demo.example.com/paused": "true", "demo.example.com/paused-reason": "maintenance"},
				"shop/web": {"demo.example.com/paused": "true", "demo.example.com/paused-reason": "maintenance"},
			},
		},
		{
			name: "suspend all namespaces, not confirmed", args: "suspend --all -A", answer: "no\n", code: 3,
			errors: "  bank DemoApp/web\n  shop DemoApp/db\n  shop DemoApp/web\nSuspend these 3 objects in 2 namespaces? [y/N] " +
				"error: nothing was written; answer y, or use --yes\n",
		},
		{
			name: "suspend by a selector", args: "suspend demoapp -l tier=data --yes -o name", out: "demoapp.demo.example.com/db\n",
			written: map[string]map[string]string{"shop/db": {"demo.example.com/paused": "true"}},
		},
		{
			name: "several objects", args: "suspend demoapp/web demoapp/db -y", out: "demoapp.demo.example.com/web suspended\ndemoapp.demo.example.com/db suspended\n",
			written: map[string]map[string]string{"shop/web": {"demo.example.com/paused": "true"}, "shop/db": {"demo.example.com/paused": "true"}},
		},
		{name: "client dry run", args: "suspend demoapp/web --dry-run=client", out: "demoapp.demo.example.com/web suspended (dry run)\n"},
		{name: "server dry run", args: "suspend demoapp/web --dry-run=server", out: "demoapp.demo.example.com/web suspended (server dry run)\n"},
		{
			name: "refused", args: "suspend demoapp/web --yes", forbidden: true, code: 3,
			errors: `error: DemoApp/web: demoapps.demo.example.com "web" is forbidden: <nil>; kubectl auth can-i --list -n shop shows what you may do` + "\n",
		},
		{
			name: "refused to another user", args: "suspend demoapp/web --yes --as=bob", forbidden: true, code: 3,
			errors: "; kubectl auth can-i --list -n shop --as=bob shows what you may do\n",
		},
		{
			name: "many refused", args: "suspend --all --yes", forbidden: true, code: 3,
			errors: `error: DemoApp/db: demoapps.demo.example.com "db" is forbidden: <nil>; kubectl auth can-i --list -n shop shows what you may do` + "\n" +
				"error: the same for 1 more objects\n",
		},
		{
			name: "resume of what is not suspended", args: "resume demoapp/web -y",
			out:     "demoapp.demo.example.com/web unchanged: neither an annotation nor spec.suspend suspends it\n",
			written: map[string]map[string]string{"shop/web": {}},
		},
		{name: "no answer", args: "resume demoapp/web", code: 3, errors: "nothing was written; answer y, or use --yes\n"},
		{name: "no object", args: "suspend", code: 3, errors: "error: name an object as KIND/NAME, as in demoapp/web, or select with --all or --selector\n"},
		{name: "only a kind", args: "suspend demoapp", code: 3, errors: `error: "demoapp" names no object; write demoapp/NAME, or select with --all or --selector` + "\n"},
		{name: "object and --all", args: "suspend demoapp/web --all", code: 3, errors: "error: name objects, or select them with --all or --selector, and not both\n"},
		{name: "mistyped name", args: "suspend demoapp/wob -y", code: 3, errors: `"wob" not found; did you mean "web"?` + "\n"},
		{name: "mistyped namespace", args: "suspend demoapp/web -n shp -y", code: 3, errors: `error: namespaces "shp" not found; did you mean "shop"?` + "\n"},
		{name: "mistyped kind", args: "suspend demapp/web -y", code: 3, errors: `error: no kind "demapp"; did you mean "demoapp"?` + "\n"},
		{name: "mistyped flag", args: "suspend demoapp/web --reson x", code: 3, errors: "error: unknown flag: --reson; did you mean --reason?\n"},
		{name: "mistyped value", args: "suspend demoapp/web --dry-run=sever", code: 3, errors: `error: --dry-run: no value "sever"; did you mean "server"?` + "\n"},
		{name: "mistyped command", args: "suspent demoapp/web", code: 3, errors: `error: no command "suspent"; did you mean "suspend"?` + "\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newAppsWorld(t)
			w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
				if test.forbidden && request.Verb == "patch" {
					return apierrors.NewForbidden(schema.GroupResource{Group: "demo.example.com", Resource: "demoapps"}, request.Key.Name, nil)
				}
				return nil
			}
			code, out, errOut := w.answering(t, test.answer, strings.Fields(test.args)...)
			expect.Equal(t, "output", test.out, out)
			expect.Contains(t, "errors", errOut, test.errors)
			expect.Equal(t, "exit code", test.code, code)
			for _, name := range []string{"bank/web", "shop/db", "shop/web"} {
				expect.Equal(t, "annotations of "+name, test.written[name], w.Object("DemoApp", name).GetAnnotations())
			}
		})
	}
}

// TestPermissionsOfTheRefusedNamespace: a refusal may be about another namespace than the namespace
// of the command, such as the operator's.
func TestPermissionsOfTheRefusedNamespace(t *testing.T) {
	t.Parallel()
	w := newAppsWorld(t)
	w.Refuse = func(request fakeapi.Request, _ *unstructured.Unstructured) error {
		if request.Verb != "patch" {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, request.Key.Name,
			errors.New(`User "bob" cannot get resource "pods" in API group "" in the namespace "demoapp-system"`))
	}

	code, _, errOut := w.run(t, "suspend", "demoapp/web", "--yes")

	expect.Contains(t, "errors", errOut, "; kubectl auth can-i --list -n demoapp-system shows what you may do\n")
	expect.Equal(t, "exit code", 3, code)
}

// states are statuses of a DemoApp for tests of waits.
var states = map[string]map[string]any{
	"progressing": conditions("Ready", "False", "Progressing", "Deployment: 0/1", "Reconciling", "True", "Progressing", ""),
	"ready":       conditions("Ready", "True", "Healthy", "Revision 1 is healthy"),
	"stalled":     conditions("Ready", "False", "ValuesInvalid", "replicaCount", "Stalled", "True", "ValuesInvalid", "replicaCount"),
	"suspended":   conditions("Ready", "True", "Healthy", "", "Suspended", "True", "SuspendedByAnnotation", "while annotation demo.example.com/paused is true"),
}

// conditions returns a status with conditions of four texts each.
func conditions(texts ...string) map[string]any {
	var list []any
	for i := 0; i < len(texts); i += 4 {
		list = append(list, map[string]any{
			"type": texts[i], "status": texts[i+1], "reason": texts[i+2], "message": texts[i+3],
			"lastTransitionTime": "1970-01-01T01:00:00Z", "observedGeneration": int64(1),
		})
	}
	return map[string]any{"conditions": list}
}

// TestWait follows two objects, whose states change while the command runs.
func TestWait(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		web, db    []string
		code       int
		errors     []string
	}{
		{
			name: "ready", args: "wait demoapp/web demoapp/db", web: []string{"progressing", "ready"}, db: []string{"ready"},
			errors: []string{"DemoApp/web: waits: Progressing: Deployment: 0/1\n", "DemoApp/web: ready: Healthy: Revision 1 is healthy\n"},
		},
		{
			name: "needs a person", args: "wait --all", web: []string{"progressing", "stalled"}, db: []string{"ready"}, code: 2,
			errors: []string{"DemoApp/web: needs a person: ValuesInvalid: replicaCount\n", "kubectl demoapp why demoapp/web -n shop shows the cause\n"},
		},
		{
			name: "timeout", args: "wait demoapp/web --timeout=50ms", web: []string{"progressing"}, code: 1,
			errors: []string{"timeout after 50ms: 1 of 1 objects wait; kubectl demoapp why demoapp/web -n shop shows the cause\n"},
		},
		{
			name: "check", args: "wait demoapp/web demoapp/db --timeout=0", web: []string{"progressing"}, db: []string{"ready"}, code: 1,
			errors: []string{"DemoApp/db: ready", "1 of 2 objects wait; kubectl demoapp why demoapp/web -n shop shows the cause\n"},
		},
		{name: "check of a ready object", args: "wait demoapp/db --timeout=0", db: []string{"ready"}, errors: []string{"DemoApp/db: ready"}},
		{name: "negative timeout", args: "wait demoapp/db --timeout=-5s", code: 3, errors: []string{"error: --timeout: -5s is negative; 0 checks once\n"}},
		{
			name: "suspend", args: "suspend demoapp/web --yes --wait", web: []string{"ready", "suspended"},
			errors: []string{"DemoApp/web: waits: the operator has not seen the suspension yet\n", "DemoApp/web: suspended: while annotation demo.example.com/paused is true\n"},
		},
		{
			name: "deleted", args: "wait demoapp/web", web: []string{"progressing", "deleted"}, code: 2,
			errors: []string{"DemoApp/web: needs a person: the object was deleted\n"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newAppsWorld(t)
			set := func(name, state string) {
				if state == "deleted" {
					w.Remove("DemoApp", "shop/"+name)
					return
				}
				w.EditSubresource("DemoApp", "shop/"+name, "demoapp-controller", "status", func(live *unstructured.Unstructured) {
					live.Object["status"] = states[state]
				})
			}
			// The next state follows as soon as the command has printed the last one.
			next := map[string][]string{"web": test.web, "db": test.db}
			for name, list := range next {
				if len(list) > 0 {
					set(name, list[0])
					next[name] = list[1:]
				}
			}
			errs := &onWrite{}
			errs.do = func() {
				for name, list := range next {
					if len(list) > 0 && strings.Contains(errs.String(), "DemoApp/"+name+": ") {
						next[name] = list[1:]
						set(name, list[0])
					}
				}
			}
			code := w.execute(t, genericiooptions.IOStreams{In: strings.NewReader(""), Out: io.Discard, ErrOut: errs}, strings.Fields(test.args)...)
			expect.Contains(t, "errors", errs.String(), test.errors...)
			expect.Equal(t, "exit code", test.code, code)
		})
	}
}

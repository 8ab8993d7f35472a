// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/test/cluster"
)

// outcome is the result of a run.
type outcome struct {
	// states are those after each step.
	states []state
	// creations is the number of requests until the object was created, of an undisturbed run.
	creations int
	events    map[string]int
	audits    int
}

// The steps of a run. The kind of the child follows driftOf.
const (
	creation = "creation"
	change   = "change"
	driftOf  = "drift of "
	deletion = "deletion"
)

// play plays a subject in a namespace. After each step, it waits until the state equals the state
// of the undisturbed run, except for differences that options allow; without an undisturbed run,
// until the state stays as it is. If around is set, it must call take, and may inject faults before
// and after.
func play(
	t *testing.T, s subject, namespace string, undisturbed *outcome, around func(step string, take func()), options ...cmp.Option,
) outcome {
	t.Helper()
	ctx := t.Context()
	defer func() {
		if t.Failed() {
			t.Logf("the operator's log about the namespace:\n%s", logAbout(namespace))
		}
	}()
	s.prepare(t, namespace)
	if around == nil {
		around = func(_ string, take func()) { take() }
	}
	var came outcome
	settle := func(step string) {
		t.Helper()
		var want state
		if undisturbed != nil {
			want = undisturbed.states[len(came.states)]
		}
		came.states = append(came.states, settled(ctx, t, step, namespace, want, options...))
	}
	var object *unstructured.Unstructured
	around(creation, func() { object = apply(ctx, t, namespace, s.object)[0] })
	shared.AwaitReady(ctx, t, namespace, object)
	settle(creation)

	client := clientOf(t, object, namespace)
	around(change, func() {
		if _, err := client.Patch(ctx, "web", types.MergePatchType, []byte(s.change), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	shared.AwaitReady(ctx, t, namespace, object)
	settle(change)

	for _, d := range s.drift {
		step, begin := driftOf+d.kind, time.Now()
		around(step, func() { d.make(ctx, t, namespace) })
		if undisturbed == nil {
			awaitWrite(ctx, t, namespace, begin)
			shared.AwaitReady(ctx, t, namespace, object)
		}
		settle(step)
	}

	around(deletion, func() {
		if err := client.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	awaitGone(ctx, t, client, "web")
	awaitCollected(ctx, t, namespace)
	settle(deletion)
	var err error
	if came.events, err = eventsOf(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	if came.audits, err = auditRecordsOf(ctx, namespace); err != nil {
		t.Fatal(err)
	}
	return came
}

// logAbout returns the lines of the shared operator's log that have the name of a namespace.
func logAbout(namespace string) string {
	var lines strings.Builder
	for line := range strings.Lines(operator.Log()) {
		if strings.Contains(line, namespace) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// awaitGone waits until an object is gone.
func awaitGone(ctx context.Context, t testing.TB, client dynamic.ResourceInterface, name string) {
	t.Helper()
	cluster.Eventually(ctx, t, name+" is gone", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// awaitWrite waits until the operator has written in a namespace.
func awaitWrite(ctx context.Context, t *testing.T, namespace string, since time.Time) {
	t.Helper()
	about := ofNamespace(namespace)
	shared.AwaitAuditRequest(ctx, t, "a write of the operator", since, func(event cluster.AuditEvent) bool {
		return about(event) && event.IsWrite()
	})
}

// prepare creates the objects that exist before the object of the subject.
func (s subject) prepare(t *testing.T, namespace string) {
	t.Helper()
	for _, claim := range s.claims {
		shared.Volume(t, namespace, claim, "1Gi")
	}
	apply(t.Context(), t, namespace, s.before)
}

// make changes or deletes the child.
func (d drift) make(ctx context.Context, t *testing.T, namespace string) {
	t.Helper()
	if err := d.write(ctx, t, namespace); err != nil {
		t.Fatal(err)
	}
}

// attempt changes or deletes the child, if it exists.
func (d drift) attempt(ctx context.Context, t *testing.T, namespace string) error {
	t.Helper()
	err := d.write(ctx, t, namespace)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (d drift) write(ctx context.Context, t *testing.T, namespace string) error {
	t.Helper()
	client := clientOf(t, d.child(), namespace)
	if d.patch == "" {
		return client.Delete(ctx, d.name, metav1.DeleteOptions{})
	}
	_, err := client.Patch(ctx, d.name, types.MergePatchType, []byte(d.patch), metav1.PatchOptions{})
	return err
}

// child returns an object of the kind of the child.
func (d drift) child() *unstructured.Unstructured {
	child := &unstructured.Unstructured{}
	child.SetAPIVersion(d.apiVersion)
	child.SetKind(d.kind)
	return child
}

// settled waits until the state of a namespace is the desired one and returns it. Without a desired
// state, it returns the first state that stays the same for the time of a status update.
func settled(ctx context.Context, t *testing.T, step, namespace string, desired state, options ...cmp.Option) state {
	t.Helper()
	var last state
	defer func() {
		if t.Failed() && desired != nil {
			t.Logf("After the %s, the state differs from that of the undisturbed run (-undisturbed +this):\n%s", step, cmp.Diff(desired, last, options...))
		}
	}()
	silence := glance
	if desired == nil || step == deletion {
		silence = quiet
	}
	cluster.Eventually(ctx, t, "state after the "+step, func(ctx context.Context) (bool, error) {
		if sabotage.holds(namespace) {
			return false, errors.New("a request is without an answer")
		}
		// The state changes only while the operator sends requests.
		if err := shared.AwaitAuditQuiet(ctx, silence, ofNamespace(namespace)); err != nil {
			return false, err
		}
		found, err := stateOf(ctx, namespace)
		if err != nil {
			return false, err
		}
		last = found
		return desired == nil || cmp.Equal(desired, found, options...), nil
	})
	return last
}

// ofNamespace selects the operator's requests about a namespace.
func ofNamespace(namespace string) cluster.AuditFilter {
	return func(event cluster.AuditEvent) bool {
		return cluster.ByOperator()(event) && (event.Namespace == namespace || strings.Contains(event.Name, namespace))
	}
}

// apply applies the objects of a YAML text. NAMESPACE in the text stands for the namespace.
func apply(ctx context.Context, t testing.TB, namespace, text string) []*unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	objects := decode(t, strings.ReplaceAll(text, "NAMESPACE", namespace))
	for _, object := range objects {
		if err := shared.ApplyObject(ctx, namespace, object); err != nil {
			t.Fatal(err)
		}
	}
	return objects
}

// clientOf returns the client of an object's resource.
func clientOf(t testing.TB, object *unstructured.Unstructured, namespace string) dynamic.ResourceInterface {
	t.Helper()
	gvk := object.GroupVersionKind()
	mapping, err := shared.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	return shared.Dynamic.Resource(mapping.Resource).Namespace(namespace)
}

// kindsServed returns the resources of the operator's kinds.
func kindsServed(t testing.TB) []schema.GroupVersionResource {
	t.Helper()
	var found []schema.GroupVersionResource
	for _, name := range slices.Sorted(maps.Keys(subjects)) {
		gvk := decode(t, subjects[name].object)[0].GroupVersionKind()
		mapping, err := shared.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, mapping.Resource)
	}
	return found
}

// decode returns the objects of a YAML text.
func decode(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := shared.Objects(path)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package watches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// quiet is how long an operator without work is silent.
const quiet = 2 * time.Second

// space is the namespace of a test.
type space struct {
	t    *testing.T
	name string
}

// newSpace creates the namespace of a test. A failed test shows the operator's log for it.
func newSpace(t *testing.T) *space {
	t.Helper()
	t.Parallel()
	s := &space{t, shared.Namespace(t)}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		lines := slices.DeleteFunc(slices.Collect(strings.Lines(operator.Log())), func(line string) bool { return !strings.Contains(line, s.name) })
		t.Logf("the operator's log for the namespace:\n%s", strings.Join(lines[max(0, len(lines)-50):], ""))
	})
	return s
}

// of returns a client for the custom resources of a kind in the namespace.
func (s *space) of(kind string) dynamic.ResourceInterface {
	client := shared.Dynamic.Resource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource(kind)})
	if kind == "Fleet" {
		return client
	}
	return client.Namespace(s.name)
}

// create creates a custom resource with annotations, given as names and values.
func (s *space) create(kind, name string, spec any, annotations ...string) {
	s.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	object.SetAPIVersion(group + "/v1")
	object.SetKind(kind)
	object.SetName(name)
	values := map[string]string{}
	for i := 0; i+1 < len(annotations); i += 2 {
		values[annotations[i]] = annotations[i+1]
	}
	object.SetAnnotations(values)
	if _, err := s.of(kind).Create(s.t.Context(), object, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// set replaces fields of the spec.
func (s *space) set(kind, name string, fields map[string]any) {
	s.t.Helper()
	s.patch(s.of(kind), name, map[string]any{"spec": fields})
}

// annotate sets an annotation.
func (s *space) annotate(kind, name, annotation, value string) {
	s.t.Helper()
	s.patch(s.of(kind), name, map[string]any{"metadata": map[string]any{"annotations": map[string]any{annotation: value}}})
}

// patch sends a merge patch.
func (s *space) patch(client dynamic.ResourceInterface, name string, patch any, subresources ...string) {
	s.t.Helper()
	data, err := json.Marshal(patch)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := client.Patch(s.t.Context(), name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "theirs"}, subresources...); err != nil {
		s.t.Fatal(err)
	}
}

// delete deletes a custom resource without waiting.
func (s *space) delete(kind, name string) {
	s.t.Helper()
	if err := s.of(kind).Delete(s.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// deleteAndWait deletes a custom resource and waits until it is gone.
func (s *space) deleteAndWait(kind, name string) {
	s.t.Helper()
	s.delete(kind, name)
	s.awaitGone(kind+" "+name, s.of(kind), name)
}

func (s *space) awaitGone(what string, client dynamic.ResourceInterface, name string) {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, what+" gone", func(ctx context.Context) (bool, error) {
		_, err := client.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// await waits until a custom resource has conditions, each as "Type Status Reason". Ready must have
// the current generation. It returns the custom resource.
func (s *space) await(kind, name string, conditions ...string) *unstructured.Unstructured {
	s.t.Helper()
	return s.awaitThat(kind, name, strings.Join(conditions, ", "), func(object *unstructured.Unstructured) bool {
		has := conditionsOf(object)
		for _, condition := range conditions {
			fields := strings.Fields(condition)
			found, ok := has[fields[0]]
			if !ok || found.text() != condition || found.ObservedGeneration != object.GetGeneration() && fields[0] == "Ready" {
				return false
			}
		}
		return true
	})
}

// awaitThat waits until done holds for a custom resource.
func (s *space) awaitThat(kind, name, what string, done func(*unstructured.Unstructured) bool) *unstructured.Unstructured {
	s.t.Helper()
	var object *unstructured.Unstructured
	cluster.Eventually(s.t.Context(), s.t, fmt.Sprintf("%s %s: %s", kind, name, what), func(ctx context.Context) (bool, error) {
		var err error
		if object, err = s.of(kind).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return false, err
		}
		if done(object) {
			return true, nil
		}
		return false, fmt.Errorf("status is %v", object.Object["status"])
	})
	return object
}

// condition is a condition of a status.
type condition metav1.Condition

func (c condition) text() string { return c.Type + " " + string(c.Status) + " " + c.Reason }

// conditionsOf returns the conditions of an object by their type.
func conditionsOf(object *unstructured.Unstructured) map[string]condition {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	found := map[string]condition{}
	for _, item := range list {
		data, _ := json.Marshal(item)
		var c condition
		if json.Unmarshal(data, &c) == nil {
			found[c.Type] = c
		}
	}
	return found
}

// assertMessage asserts that the message of a condition is one line with these parts.
func (s *space) assertMessage(object *unstructured.Unstructured, name string, parts ...string) {
	s.t.Helper()
	message := conditionsOf(object)[name].Message
	for _, part := range parts {
		if !strings.Contains(message, part) {
			s.t.Errorf("the message of %s lacks %q: %s", name, part, message)
		}
	}
	if strings.Contains(message, "\n") {
		s.t.Errorf("the message of %s has several lines: %s", name, message)
	}
}

// assertConditions asserts that an object has conditions, each as "Type Status Reason".
func (s *space) assertConditions(object *unstructured.Unstructured, conditions ...string) {
	s.t.Helper()
	has := conditionsOf(object)
	for _, want := range conditions {
		if got := has[strings.Fields(want)[0]].text(); got != want {
			s.t.Errorf("condition is %q, want %q; all are %v", got, want, slices.Collect(maps.Values(has)))
		}
	}
}

// field returns a field of an object as text; empty for an absent field.
func field(object *unstructured.Unstructured, path ...string) string {
	value, ok, _ := unstructured.NestedFieldNoCopy(object.Object, path...)
	if !ok {
		return ""
	}
	return fmt.Sprint(value)
}

// configMaps returns a client for the ConfigMaps of the namespace.
func (s *space) configMaps() dynamic.ResourceInterface {
	return shared.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).Namespace(s.name)
}

// size returns the size in the ConfigMap of a release; empty if there is no ConfigMap.
func (s *space) size(name string) string {
	s.t.Helper()
	return s.data(name)["size"]
}

// data returns the data of a ConfigMap; nil if there is no ConfigMap.
func (s *space) data(name string) map[string]string {
	s.t.Helper()
	found, err := shared.Client.CoreV1().ConfigMaps(s.name).Get(s.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return found.Data
}

// awaitSize waits until the ConfigMap of a release has a size, or is gone if size is empty.
func (s *space) awaitSize(name, size string) {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, "size "+size+" of "+name, func(context.Context) (bool, error) {
		live := s.size(name)
		return live == size, fmt.Errorf("size is %q", live)
	})
}

// drift changes the size in the ConfigMap of a release as another client.
func (s *space) drift(name, size string) {
	s.t.Helper()
	s.patch(s.configMaps(), name, map[string]any{"data": map[string]any{"size": size}})
}

// records returns the names of the release records of the namespace, without their prefix.
func (s *space) records() []string {
	s.t.Helper()
	list, err := shared.Client.CoreV1().Secrets(s.name).List(s.t.Context(), metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		s.t.Fatal(err)
	}
	names := []string{}
	for i := range list.Items {
		names = append(names, strings.TrimPrefix(list.Items[i].Name, "sh.helm.release.v1.")+" "+list.Items[i].Labels["status"])
	}
	return names
}

// requests waits until the operator is silent in the namespace, and returns its requests since
// then, without watches.
func (s *space) requests(since time.Time) []cluster.AuditEvent {
	s.t.Helper()
	filter := func(e cluster.AuditEvent) bool {
		return cluster.ByOperator()(e) && e.Verb != "watch" && e.Namespace == s.name
	}
	if err := shared.AwaitAuditQuiet(s.t.Context(), quiet, filter); err != nil {
		s.t.Fatal(err)
	}
	requests, err := shared.AuditRequests(since, filter)
	if err != nil {
		s.t.Fatal(err)
	}
	return requests
}

// assertSilent waits until the operator is silent, calls do, and asserts that no request for the
// namespace follows.
func (s *space) assertSilent(what string, do func()) {
	s.t.Helper()
	s.requests(time.Now())
	begin := time.Now()
	do()
	if requests := s.requests(begin); len(requests) > 0 {
		s.t.Errorf("%s took requests:\n%s", what, apps.Describe(requests))
	}
}

// awaitEvent waits until there is an event with a reason about an object of a namespace, and
// returns it.
func awaitEvent(t *testing.T, namespace, object, reason string) eventsv1.Event {
	t.Helper()
	var found eventsv1.Event
	cluster.Eventually(t.Context(), t, "event "+reason, func(ctx context.Context) (bool, error) {
		list, err := shared.Client.EventsV1().Events(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range list.Items {
			if list.Items[i].Reason == reason && list.Items[i].Regarding.Name == object {
				found = list.Items[i]
				return true, nil
			}
		}
		return false, errors.New("no such event")
	})
	return found
}

// object returns an object for the value "extra" of the chart.
func object(apiVersion, kind, namespace, name string) map[string]any {
	metadata := map[string]any{"name": name}
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	return map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": metadata}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
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

const (
	// shortChanges and allChanges are the numbers of generated changes of each subject, by default.
	shortChanges = 4
	allChanges   = 40
	// converged is how long an object may take to come to the state of a fresh one.
	converged = 90 * time.Second
)

var numberOfChanges = flag.Int("changes", 0, "number of generated changes of each subject; 0 for 40, or 4 in a short test")

// lasting are fields whose effect lasts or is delayed: gates of changes, and the volumes of
// databases, which are never made again.
var lasting = []string{"upgradeWindow", "waitFor", "storage", "storageClassName"}

// TestGeneratedChanges changes the spec of each subject at random, and between the changes its
// children. After each change that the API server accepts, the state must be that of a fresh object
// with the same spec. If the fresh object is not Ready, the object must not be Ready either, and
// the last Ready spec must bring it back.
func TestGeneratedChanges(t *testing.T) { //nolint:tparallel // The other tests disturb all runs.
	changes := *numberOfChanges
	if changes == 0 {
		changes = allChanges
		if testing.Short() {
			changes = shortChanges
		}
	}
	for name, s := range subjects {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			count(t, changes)
			history := newHistory(t, name, s)
			defer func() {
				t.Logf("%d changes, of which %d were refused and %d not Ready", changes, history.refused, history.unready)
				if t.Failed() {
					t.Logf("The changes with -seed=%d:\n%s", *seed, strings.Join(history.log, "\n"))
				}
			}()
			for range changes {
				history.step(t)
			}
		})
	}
}

// A history is an object with a history of changes, which is compared with fresh objects.
type history struct {
	subject   subject
	namespace string
	object    *unstructured.Unstructured
	schema    openAPI
	generator *generator
	// ready is the last spec with which a fresh object was Ready, and fresh its namespace.
	ready map[string]any
	fresh string

	log              []string
	refused, unready int
}

// newHistory creates the object of a subject.
func newHistory(t *testing.T, name string, s subject) *history {
	t.Helper()
	ctx := t.Context()
	hash := fnv.New64()
	_, _ = hash.Write([]byte(name)) // A hash takes all bytes.
	h := &history{
		subject: s, namespace: shared.Namespace(t),
		generator: &generator{random: rand.New(rand.NewPCG(uint64(*seed), hash.Sum64()))},
	}
	for _, object := range decode(t, s.before+"\n---\n"+s.object) {
		h.generator.names = append(h.generator.names, object.GetName())
	}
	s.prepare(t, h.namespace)
	h.object = apply(ctx, t, h.namespace, s.object)[0]
	h.schema = specSchema(ctx, t, h.object)
	shared.AwaitReady(ctx, t, h.namespace, h.object)
	live, err := clientOf(t, h.object, h.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.ready = mapOf(live.Object["spec"])
	return h
}

// specSchema returns the schema of an object's spec: that of its CustomResourceDefinition, or for a
// spec of any form that of the chart's values.
func specSchema(ctx context.Context, t *testing.T, object *unstructured.Unstructured) openAPI {
	t.Helper()
	gvk := object.GroupVersionKind()
	mapping, err := shared.Mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		t.Fatal(err)
	}
	definitions := shared.Dynamic.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	definition, err := definitions.Get(ctx, mapping.Resource.GroupResource().String(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	root, _, _ := unstructured.NestedMap(mapOf(versions[0]), "schema", "openAPIV3Schema")
	spec := openAPI(root).property("spec")
	if len(spec.names()) == 0 {
		text, err := os.ReadFile(filepath.Join(shared.Root(), "examples", "hybrid", "charts", "memcached", "values.schema.json"))
		if err != nil {
			t.Fatal(err)
		}
		if spec, err = decodeSchema(text); err != nil {
			t.Fatal(err)
		}
	}
	removeLasting(spec)
	return spec
}

// removeLasting removes the fields whose effect lasts from a schema.
func removeLasting(s openAPI) {
	maps.DeleteFunc(mapOf(s["properties"]), func(name string, _ any) bool { return slices.Contains(lasting, name) })
	for _, name := range s.names() {
		removeLasting(s.property(name))
	}
}

// step makes one change, and one of a child, and compares the state with that of a fresh object.
func (h *history) step(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	changed, path := h.generator.change(h.schema, h.ready, "spec")
	spec := mapOf(changed)
	accepted, isAccepted := h.set(ctx, t, spec)
	h.note("%s: %s accepted %t", path, excerpt(spec), isAccepted)
	if !isAccepted {
		h.refused++
		return
	}
	if h.generator.oneIn(2) {
		h.disturb(ctx, t)
	}
	fresh := shared.Namespace(t)
	h.subject.prepare(t, fresh)
	isReady := h.createFresh(ctx, t, fresh, accepted)
	h.note("a fresh object is Ready: %t", isReady)
	if isReady {
		h.ready, h.fresh = accepted, fresh
		h.compare(ctx, t)
		return
	}
	h.unready++
	cluster.Eventually(ctx, t, "the object is not Ready either", func(ctx context.Context) (bool, error) {
		changedReady, err := isReadyNow(ctx, clientOf(t, h.object, h.namespace))
		if err != nil {
			return false, err
		}
		freshReady, err := isReadyNow(ctx, clientOf(t, h.object, fresh))
		return changedReady == freshReady, err
	})
	if _, ok := h.set(ctx, t, h.ready); !ok {
		t.Fatal("the last Ready spec is refused")
	}
	h.note("back to the last Ready spec")
	if h.fresh != "" {
		h.compare(ctx, t)
	}
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// excerpt returns the beginning of a spec as JSON.
func excerpt(spec map[string]any) string {
	const most = 1500
	text, err := json.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	return string(text[:min(len(text), most)])
}

// set replaces the spec of the object. It returns the spec with its defaults, or false if the API
// server refuses the spec.
func (h *history) set(ctx context.Context, t *testing.T, spec map[string]any) (accepted map[string]any, ok bool) {
	t.Helper()
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec}})
	if err != nil {
		t.Fatal(err)
	}
	live, err := clientOf(t, h.object, h.namespace).Patch(ctx, "web", types.JSONPatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		return nil, false
	case err != nil:
		t.Fatal(err)
	}
	return mapOf(live.Object["spec"]), true
}

// createFresh creates an object with a spec in another namespace, and reports whether it is Ready
// when the operator has done its work.
func (h *history) createFresh(ctx context.Context, t *testing.T, namespace string, spec map[string]any) bool {
	t.Helper()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var moved map[string]any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), h.namespace, namespace)), &moved); err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": moved, "metadata": map[string]any{"name": "web"}}}
	object.SetGroupVersionKind(h.object.GroupVersionKind())
	client := clientOf(t, object, namespace)
	if _, err := client.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	isReady := false
	cluster.Eventually(ctx, t, "the operator has worked on the fresh object", func(ctx context.Context) (bool, error) {
		if err := shared.AwaitAuditQuiet(ctx, quiet, ofNamespace(namespace)); err != nil {
			return false, err
		}
		live, err := client.Get(ctx, "web", metav1.GetOptions{})
		if err != nil || live.Object["status"] == nil {
			return false, err
		}
		isReady, err = isReadyNow(ctx, client)
		return err == nil, err
	})
	return isReady
}

// isReadyNow reports whether the object web is Ready.
func isReadyNow(ctx context.Context, client dynamic.ResourceInterface) (bool, error) {
	live, err := client.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return isReady(live)
}

// isReady reports whether an object is Ready at its generation.
func isReady(object *unstructured.Unstructured) (bool, error) {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		fields := mapOf(condition)
		if fields["type"] == "Ready" {
			return fields["status"] == "True" && fields["observedGeneration"] == object.GetGeneration(), err
		}
	}
	return false, err
}

// disturb changes or deletes a child, if the object corrects it.
func (h *history) disturb(ctx context.Context, t *testing.T) {
	t.Helper()
	drift := mapOf(h.ready["drift"])
	if mode := drift["mode"]; h.ready["suspend"] == true || drift["ignore"] != nil || mode != nil && mode != "Correct" {
		return
	}
	var children []unstructured.Unstructured
	for _, resource := range contents {
		list, err := shared.Dynamic.Resource(resource).Namespace(h.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			if isChild(&list.Items[i]) {
				children = append(children, list.Items[i])
			}
		}
	}
	if len(children) == 0 {
		return
	}
	child := choose(h.generator, children)
	client := clientOf(t, &child, h.namespace)
	var err error
	if patch := h.generator.edit(&child); patch == "" {
		h.note("delete %s %s", child.GetKind(), child.GetName())
		err = client.Delete(ctx, child.GetName(), metav1.DeleteOptions{})
	} else {
		h.note("change %s %s: %s", child.GetKind(), child.GetName(), patch)
		_, err = client.Patch(ctx, child.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// isChild reports whether the operator owns an object directly. Claims are data, which the operator
// does not make again.
func isChild(object *unstructured.Unstructured) bool {
	if object.GetKind() == "PersistentVolumeClaim" || object.GetLabels()["owner"] == "helm" {
		return false
	}
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.Name == "web" && strings.Contains(owner.APIVersion, ".")
}

// edit returns a merge patch of a child that the operator has to correct. An empty patch stands for
// the deletion.
func (g *generator) edit(child *unstructured.Unstructured) string {
	edits := []string{""}
	if labels := child.GetLabels(); len(labels) > 0 {
		label := choose(g, slices.Sorted(maps.Keys(labels)))
		edits = append(edits, fmt.Sprintf(`{"metadata": {"labels": {%q: "theirs"}}}`, label))
	}
	if replicas, ok, _ := unstructured.NestedInt64(child.Object, "spec", "replicas"); ok {
		edits = append(edits, fmt.Sprintf(`{"spec": {"replicas": %d}}`, replicas+1))
	}
	if data := mapOf(child.Object["data"]); child.GetKind() == "ConfigMap" && len(data) > 0 {
		edits = append(edits, fmt.Sprintf(`{"data": {%q: "theirs"}}`, choose(g, slices.Sorted(maps.Keys(data)))))
	}
	return choose(g, edits)
}

// compare waits until the state of the object is that of the fresh one.
func (h *history) compare(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, converged)
	defer cancel()
	var difference string
	defer func() {
		if t.Failed() {
			t.Logf("The state in %s differs from that of a fresh object in %s (-fresh +changed):\n%s", h.namespace, h.fresh, difference)
		}
	}()
	cluster.Eventually(ctx, t, "the state is that of a fresh object", func(ctx context.Context) (bool, error) {
		fresh, err := h.stateWithoutHistory(ctx, h.fresh)
		if err != nil {
			return false, err
		}
		came, err := h.stateWithoutHistory(ctx, h.namespace)
		if err != nil {
			return false, err
		}
		// The data of servers that are gone stays.
		maps.DeleteFunc(came, func(name string, _ any) bool {
			return strings.HasPrefix(name, "persistentvolumeclaims/") && fresh[name] == nil
		})
		difference = differenceOf(fresh, came)
		return difference == "", nil
	})
}

// differenceOf returns the fields in which two states differ, with their paths.
func differenceOf(fresh, came state) string {
	before, after := map[string]string{}, map[string]string{}
	flatten(map[string]any(fresh), "", before)
	flatten(map[string]any(came), "", after)
	maps.DeleteFunc(before, func(path, value string) bool {
		other, ok := after[path]
		if ok && other == value {
			delete(after, path)
			return true
		}
		return false
	})
	return cmp.Diff(before, after)
}

// flatten puts the fields of a value into a map by their paths.
func flatten(value any, path string, into map[string]string) {
	switch value := value.(type) {
	case map[string]any:
		into[path] = "object"
		for key, inner := range value {
			flatten(inner, path+"."+key, into)
		}
	case []any:
		into[path] = fmt.Sprintf("%d items", len(value))
		for i, inner := range value {
			flatten(inner, fmt.Sprintf("%s[%d]", path, i), into)
		}
	default:
		into[path] = fmt.Sprint(value)
	}
}

// stateWithoutHistory waits until the operator has done its work in a namespace, and returns the
// state without what tells of the past.
func (h *history) stateWithoutHistory(ctx context.Context, namespace string) (state, error) {
	if err := shared.AwaitAuditQuiet(ctx, glance, ofNamespace(namespace)); err != nil {
		return nil, err
	}
	found, err := stateOf(ctx, shared, kinds, namespace)
	if err != nil {
		return nil, err
	}
	without := state{}
	for name, object := range found {
		if match := ofRelease.FindStringSubmatch(name); match != nil {
			// Superseded and failed revisions are the history. One revision is deployed, and none is
			// pending.
			if status := mapOf(object)["status"]; status != "superseded" && status != "failed" {
				records, _ := without[match[1]].([]any)
				without[match[1]] = append(records, object)
			}
			continue
		}
		if fields := mapOf(object); fields["status"] != nil {
			fields["status"] = presentOf(fields["status"], h.past())
		}
		without[name] = object
	}
	return without, nil
}

// ofRelease matches the record of a revision.
var ofRelease = regexp.MustCompile(`^secrets/(sh\.helm\.release\.v1\..*)\.v\d+$`)

// past returns the fields of a status that tell of the past. A release also says how it came to be.
func (h *history) past() []string {
	fields := []string{"observedGeneration", "lastCorrection", "lastChangeTime", "unusedClaims"}
	if h.subject.release || h.object.GetKind() == "DemoAppCluster" {
		fields = append(fields, "history", "failures", "revisions", "revision", "lastUpgradeReason", "lastUpgradeAt", "lastGoodRevision", "message", "reason")
	}
	return fields
}

// presentOf returns a status without the fields that tell of the past.
func presentOf(value any, past []string) any {
	switch value := value.(type) {
	case map[string]any:
		fields := map[string]any{}
		for key, inner := range value {
			if !slices.Contains(past, key) {
				fields[key] = presentOf(inner, past)
			}
		}
		return fields
	case []any:
		items := make([]any, 0, len(value))
		for _, inner := range value {
			items = append(items, presentOf(inner, past))
		}
		return items
	default:
		return value
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
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
	// slow is how long an object may be Reconciling before that is its state.
	slow = 10 * time.Second
)

var numberOfChanges = flag.Int("changes", 0, "number of generated changes of each subject; 0 for 40, or 4 in a short test")

// lasting are fields whose effect lasts or is delayed: gates of changes, the volumes of databases,
// which are never made again, and ports that only one Service of the cluster has.
var lasting = []string{"suspend", "upgradeWindow", "waitFor", "storage", "storageClassName", "version", "nodePort"}

// TestGeneratedChanges changes the spec of each subject at random, and with half of the changes a
// child. After each change that the API server accepts, the object must reach the same state as a
// fresh object with the same spec. If the fresh object is not Ready, the object must not be Ready
// either, and the last Ready spec must bring it back.
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
			history := newHistory(t, s)
			countThat(t, func() int { return history.compared })
			defer func() {
				t.Logf("%d changes, of which %d were compared, %d of them not Ready", changes, history.compared, history.unready)
				if t.Failed() {
					t.Logf("The changes with -seed=%d:\n%s", *seed, strings.Join(history.log, "\n"))
				}
			}()
			for number := range changes {
				history.step(t, generatorOf(name, number, history.names))
			}
			if history.compared == 0 {
				t.Error("the API server refused all changes")
			}
		})
	}
}

// generatorOf returns the generator of one step of a subject. The draws of an earlier step do not
// change the draws of this step.
func generatorOf(subject string, step int, names []string) *generator {
	hash := fnv.New64()
	_, _ = fmt.Fprintln(hash, subject, step) // A hash takes all bytes.
	return &generator{random: rand.New(rand.NewPCG(uint64(*seed), hash.Sum64())), names: names}
}

// A history is an object with a history of changes, which is compared with fresh objects.
type history struct {
	subject   subject
	namespace string
	object    *unstructured.Unstructured
	schema    openAPI
	// names are the names of the objects of the subject.
	names []string
	// ready is the last spec with which a fresh object was Ready, and fresh its namespace.
	ready map[string]any
	fresh string

	log               []string
	compared, unready int
}

// newHistory creates the object of a subject.
func newHistory(t *testing.T, s subject) *history {
	t.Helper()
	ctx := t.Context()
	h := &history{subject: s, namespace: shared.Namespace(t)}
	for _, object := range decode(t, s.before+"\n---\n"+s.object) {
		h.names = append(h.names, object.GetName())
	}
	s.prepare(t, h.namespace)
	h.object = apply(ctx, t, h.namespace, s.object)[0]
	h.schema = specSchema(ctx, t, h.object)
	prepareSchema(h.schema, h.namespace)
	live, err := clientOf(t, h.object, h.namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	h.ready = mapOf(live.Object["spec"])
	h.fresh = h.createFresh(t, h.ready)
	shared.AwaitReady(ctx, t, h.fresh, h.object)
	h.compare(ctx, t, h.fresh)
	return h
}

// specSchema returns the schema of an object's spec: the schema in its CustomResourceDefinition, or
// for a spec of any form the schema of the chart's values.
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
		if spec, err = decodeSchema(readFile(t, filepath.Join(memcachedChart(), "values.schema.json"))); err != nil {
			t.Fatal(err)
		}
	}
	return spec
}

// prepareSchema prepares a schema for changes of an object in a namespace. It removes the fields
// whose effect lasts, and the objects that have them are never removed. A host has the namespace in
// its name, because only one object of the cluster gets the host.
func prepareSchema(s openAPI, namespace string) {
	for _, name := range s.names() {
		property := s.property(name)
		prepareSchema(property, namespace)
		switch {
		case slices.Contains(lasting, name):
			delete(mapOf(s["properties"]), name)
			s[stays] = true
		case property[stays] == true:
			s[stays] = true
		case name == "host":
			property["enum"] = []any{namespace + ".example.com", "shop." + namespace + ".example.com"}
		}
	}
}

// step makes one change of the object and one of a child, and compares the state with the state of a fresh object.
func (h *history) step(t *testing.T, g *generator) {
	t.Helper()
	ctx := t.Context()
	changed, path := g.change(h.schema, h.ready, "spec")
	drawn := h.drawDrift(ctx, t, g)
	h.note("change %s", path)
	accepted := h.set(ctx, t, changed)
	if accepted == nil {
		return
	}
	if drawn != nil && corrects(accepted) {
		h.note("drift: %v", *drawn)
		// The new spec may have no such child.
		if err := drawn.attempt(ctx, t, h.namespace); err != nil {
			t.Fatal(err)
		}
	}
	fresh := h.createFresh(t, accepted)
	isReady := h.compare(ctx, t, fresh)
	h.compared++
	h.note("a fresh object is Ready: %t", isReady)
	if isReady {
		h.ready, h.fresh = accepted, fresh
		return
	}
	h.unready++
	if h.set(ctx, t, h.ready) == nil {
		t.Fatal("the last Ready spec is refused")
	}
	h.compare(ctx, t, h.fresh)
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// set replaces the spec of the object. It returns the spec with its defaults; nil if the API server
// refuses the spec.
func (h *history) set(ctx context.Context, t *testing.T, spec any) (accepted map[string]any) {
	t.Helper()
	patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": spec}})
	if err != nil {
		t.Fatal(err)
	}
	live, err := clientOf(t, h.object, h.namespace).Patch(ctx, "web", types.JSONPatchType, patch, metav1.PatchOptions{})
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsBadRequest(err):
		h.note("refused: %s", patch)
		return nil
	case err != nil:
		t.Fatal(err)
	}
	h.note("accepted: %s", patch)
	return mapOf(live.Object["spec"])
}

// createFresh creates an object with a spec in a new namespace, which it returns.
func (h *history) createFresh(t *testing.T, spec map[string]any) (namespace string) {
	t.Helper()
	namespace = shared.Namespace(t)
	h.subject.prepare(t, namespace)
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
	if _, err := clientOf(t, object, namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return namespace
}

// isReadyNow reports whether the object web is Ready.
func isReadyNow(ctx context.Context, client dynamic.ResourceInterface) (bool, error) {
	live, err := client.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return false, err
	}
	return isReady(live)
}

// isReady reports whether an object is Ready. It returns an error until the operator has observed
// the generation.
func isReady(object *unstructured.Unstructured) (bool, error) {
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		fields := mapOf(condition)
		if fields["type"] == "Ready" && fields["observedGeneration"] == object.GetGeneration() {
			return fields["status"] == "True", err
		}
	}
	return false, errors.Join(err, errors.New("the operator has not observed the generation"))
}

// corrects reports whether an object with a spec corrects all changes of its children.
func corrects(spec map[string]any) bool {
	drift := mapOf(spec["drift"])
	mode := drift["mode"]
	return drift["ignore"] == nil && (mode == nil || mode == "Correct")
}

// drawDrift chooses a change of a child; nil for half of the steps. The children are those before
// the change of the spec, so the choice does not depend on the time that the operator takes.
func (h *history) drawDrift(ctx context.Context, t *testing.T, g *generator) *drift {
	t.Helper()
	var children []unstructured.Unstructured
	err := eachObject(ctx, h.namespace, slices.Concat(contents, kinds), func(_ schema.GroupVersionResource, object *unstructured.Unstructured) {
		if isChild(object) {
			children = append(children, *object)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(children) == 0 || g.oneIn(2) {
		return nil
	}
	child := choose(g, children)
	return &drift{child.GetAPIVersion(), child.GetKind(), child.GetName(), g.edit(&child)}
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
	// A child of a kind of the operator may have replicas that its owner does not set.
	replicas, ok, _ := unstructured.NestedInt64(child.Object, "spec", "replicas")
	if ok && child.GroupVersionKind().Group == "apps" {
		edits = append(edits, fmt.Sprintf(`{"spec": {"replicas": %d}}`, replicas+1))
	}
	if data := mapOf(child.Object["data"]); child.GetKind() == "ConfigMap" && len(data) > 0 {
		edits = append(edits, fmt.Sprintf(`{"data": {%q: "theirs"}}`, choose(g, slices.Sorted(maps.Keys(data)))))
	}
	return choose(g, edits)
}

// compare waits until the state of the object equals the state of the object in the namespace
// fresh, and reports whether both are Ready.
func (h *history) compare(ctx context.Context, t *testing.T, fresh string) (isReady bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, converged)
	defer cancel()
	begin := time.Now()
	var difference string
	defer func() {
		if t.Failed() {
			t.Logf("The state in %s differs from that of a fresh object in %s (-fresh +changed):\n%s", h.namespace, fresh, difference)
			live, err := clientOf(t, h.object, h.namespace).Get(context.WithoutCancel(ctx), "web", metav1.GetOptions{})
			t.Logf("The changed object (error: %v): %v", err, live)
		}
	}()
	// Kubernetes works in the namespaces, too, until all pods are ready.
	work := func(event cluster.AuditEvent) bool {
		isOfEither := event.Namespace == fresh || event.Namespace == h.namespace
		return isOfEither && (event.IsWrite() || cluster.ByOperator()(event))
	}
	cluster.Eventually(ctx, t, "the state is that of a fresh object", func(ctx context.Context) (bool, error) {
		if err := shared.AwaitAuditQuiet(ctx, quiet, work); err != nil {
			return false, err
		}
		desired, err := h.observe(ctx, t, fresh)
		if err != nil {
			return false, err
		}
		came, err := h.observe(ctx, t, h.namespace)
		if err != nil {
			return false, err
		}
		// The data of servers that are gone stays.
		maps.DeleteFunc(came, func(name string, _ any) bool {
			return strings.HasPrefix(name, "persistentvolumeclaims/") && desired[name] == nil
		})
		difference = cmp.Diff(desired, came)
		isReady = desired["Ready"] == nil
		isSlow := desired["Reconciling"] != nil && time.Since(begin) < slow
		return difference == "" && !isSlow, nil
	})
	return isReady
}

// observe returns the state of a namespace without the fields that depend on earlier changes. If
// the object is not Ready, the state has only its conditions: the children may belong to an earlier
// spec, and a release may have been rolled back.
func (h *history) observe(ctx context.Context, t *testing.T, namespace string) (state, error) {
	t.Helper()
	live, err := clientOf(t, h.object, namespace).Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if isReady, err := isReady(live); err != nil || !isReady {
		return h.conditionsOf(live), err
	}
	found, err := stateOf(ctx, namespace)
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
				without[match[1]] = append(records, withoutHistory(object))
			}
			continue
		}
		without[name] = withoutHistory(object)
	}
	return without, nil
}

// conditionsOf returns Ready, Reconciling and Stalled of an object, with their reasons. The reasons
// of a release say whether an install or an upgrade has failed.
func (h *history) conditionsOf(object *unstructured.Unstructured) state {
	found := state{}
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, condition := range conditions {
		fields := mapOf(condition)
		name, isTrue := fmt.Sprint(fields["type"]), fields["status"] == "True"
		switch {
		case name != "Ready" && (!isTrue || name != "Reconciling" && name != "Stalled"):
		case h.subject.release || h.object.GetKind() == "DemoAppCluster":
			found[name] = isTrue
		default:
			found[name] = fields["reason"]
		}
	}
	return found
}

// ofRelease matches the record of a revision.
var ofRelease = regexp.MustCompile(`^secrets/(sh\.helm\.release\.v1\..*)\.v\d+$`)

// historical are the fields that depend on earlier changes. The API server sets imagePullPolicy for
// the first image of a container, and does not change it for the next ones.
var historical = []string{
	"observedGeneration", "lastCorrection", "lastChangeTime", "unusedClaims", "history", "failures", "revisions", "revision", "lastUpgradeReason",
	"lastUpgradeAt", "lastGoodRevision", "imagePullPolicy",
}

// historicalText is the part of other fields that depends on earlier changes, and generated
// certificates.
var historicalText = regexp.MustCompile(
	`(?i)\brevision \d+|^(Install|Upgrade)(Succeeded|Successful)$|(?s)-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----`)

// withoutHistory returns an object without the parts that depend on earlier changes, and without
// empty objects, which the API server does not always add to an existing object.
func withoutHistory(value any) any {
	switch value := value.(type) {
	case map[string]any:
		fields := map[string]any{}
		for key, inner := range value {
			rest := withoutHistory(inner)
			if object, ok := rest.(map[string]any); slices.Contains(historical, key) || ok && len(object) == 0 {
				continue
			}
			fields[key] = rest
		}
		return fields
	case []any:
		items := make([]any, 0, len(value))
		for _, inner := range value {
			items = append(items, withoutHistory(inner))
		}
		return items
	case string:
		return historicalText.ReplaceAllString(value, "HISTORY")
	default:
		return value
	}
}

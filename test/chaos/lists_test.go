// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/example/demoapp-controller/test/cluster"
)

// isStreamedList reports whether a request is a watch that begins with a list.
func isStreamedList(r *http.Request) bool { return r.URL.Query().Get("sendInitialEvents") == "true" }

// isOfInformer reports whether a request is a list or watch of an informer. Other lists of the
// operator name no version and have no limit.
func isOfInformer(r *http.Request) bool {
	query := r.URL.Query()
	return r.Method == http.MethodGet && (query.Has("resourceVersion") || query.Has("limit") || query.Has("continue"))
}

// breakPages answers a list in pages, if its client allows them, and refuses the second page
// because its version is too old. It reports whether it answered. An informer allows pages only in
// its first list, and after its list from the last version and its list of all have failed, so
// these fail, too.
func (s *saboteur) breakPages(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
	fault, _ := s.informerFaults()
	if fault == nil {
		return false
	}
	query := r.URL.Query()
	list := r.URL.Path + "?" + query.Get("labelSelector") + query.Get("fieldSelector")
	version := query.Get("resourceVersion")
	switch {
	case r.Method != http.MethodGet:
		return false
	case query.Has("continue"):
		fault.meets(expiredPages, path.Base(r.URL.Path))
		refuse(w, http.StatusGone, metav1.StatusReasonExpired)
	case query.Has("limit"):
		// The cache of the API server answers a list of any version in one page.
		query.Del("resourceVersion")
		query.Set("limit", "1")
		r.URL.RawQuery = query.Encode()
		forward.ServeHTTP(w, r)
	case version != "" && version != "0":
		s.expiredLists.Store(list, true)
		refuse(w, http.StatusGone, metav1.StatusReasonExpired)
	default:
		if _, expired := s.expiredLists.LoadAndDelete(list); !expired {
			return false
		}
		refuse(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	}
	return true
}

// A past is an old state, as shown by an API server that lags behind.
type past struct {
	resourceVersion string
	// over is closed when the API server has caught up.
	over chan struct{}
}

// intercept answers a list of any version from the past, and delays the watch of later events.
// Consistent lists are answered as usual.
func (p *past) intercept(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	query := r.URL.Query()
	_, watching := isWatch(r)
	switch version := query.Get("resourceVersion"); {
	case !watching && version == "0":
		query.Set("resourceVersion", p.resourceVersion)
		query.Set("resourceVersionMatch", string(metav1.ResourceVersionMatchExact))
		query.Del("limit")
		r.URL.RawQuery = query.Encode()
	case watching && version == p.resourceVersion:
		select {
		case <-p.over:
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		}
	}
	forward.ServeHTTP(w, r)
}

// listedConsistently are the subjects of the watches file. Their informers begin with a consistent
// list.
var listedConsistently = []string{"Memcached", "Deputy"}

// A remade object was deleted and made again by a user.
type remade struct {
	subject   subject
	namespace string
	object    *unstructured.Unstructured
	// deleted is set if the object is being deleted in the past, or is gone if it has no finalizer.
	// Otherwise, it has a change that waits.
	deleted bool
	// stale is set if the past shows the object to the operator.
	stale bool
	// state is the state of the namespace at the time since, when the new object was Ready, and
	// versions are the versions of the objects in it.
	state    state
	versions map[string]string
	since    time.Time
}

// TestStaleFirstList restarts the operator while the API server shows a state of the past, in which
// each object has a change that the operator has not made yet, or is being deleted. In truth, a
// user has deleted the object and made it again, without the change. Nothing of the new object may
// be deleted or written because of the old one.
func TestStaleFirstList(t *testing.T) {
	ctx := context.WithoutCancel(t.Context())
	objects := remadeObjects{}
	for name, s := range subjects {
		isStale := !slices.Contains(listedConsistently, name)
		objects[name+" changed"] = &remade{subject: s, namespace: shared.Namespace(t), stale: isStale}
		objects[name+" deleted"] = &remade{subject: s, namespace: shared.Namespace(t), stale: isStale, deleted: true}
	}
	for _, o := range objects {
		o.subject.prepare(t, o.namespace)
	}
	objects.each(t, "creation", func(t *testing.T, o *remade) {
		o.object = apply(ctx, t, o.namespace, o.subject.object)[0]
		shared.AwaitReady(ctx, t, o.namespace, o.object)
	})
	operator.StopOrderly(t)
	objects.each(t, "change that waits", func(t *testing.T, o *remade) { o.change(t) })
	stale := &past{resourceVersion: newestVersion(t), over: make(chan struct{})}
	operator = launch.Start(ctx, mainTest, shared).AwaitReady(ctx, mainTest)
	objects.each(t, "made again", func(t *testing.T, o *remade) { o.makeAgain(t) })
	operator.StopOrderly(t)

	sabotage.lagBehind(stale)
	catchUp := sync.OnceFunc(func() {
		sabotage.lagBehind(nil)
		close(stale.over)
	})
	t.Cleanup(catchUp)
	operator = launch.Start(ctx, mainTest, shared).AwaitReady(ctx, mainTest)
	objects.each(t, "stale", func(t *testing.T, o *remade) {
		if o.stale {
			cluster.Eventually(ctx, t, "the operator has asked for the object", func(context.Context) (bool, error) {
				return len(sabotage.sent(o.namespace)) > 0, nil
			})
		}
		if err := shared.AwaitAuditQuiet(ctx, quiet, ofNamespace(o.namespace)); err != nil {
			t.Fatal(err)
		}
	})
	catchUp()

	objects.each(t, "caught up", func(t *testing.T, o *remade) {
		if o.stale {
			count(t, 1)
		}
		settled(ctx, t, "restart", o.namespace, o.state)
		o.assertUntouched(t) //nolint:contextcheck // It reads at once.
	})
}

// remadeObjects are by the name of the subject.
type remadeObjects map[string]*remade

// each makes a step with all objects, and ends the test if it fails.
func (objects remadeObjects) each(t *testing.T, step string, act func(t *testing.T, o *remade)) {
	t.Helper()
	ok := t.Run(step, func(t *testing.T) {
		for name, o := range objects {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				act(t, o)
			})
		}
	})
	if !ok {
		t.FailNow()
	}
}

// newestVersion returns the resourceVersion of the present state.
func newestVersion(t *testing.T) string {
	t.Helper()
	list, err := shared.Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return list.ResourceVersion
}

// change changes or deletes the object while the operator is away.
func (o *remade) change(t *testing.T) {
	t.Helper()
	ctx, client := t.Context(), clientOf(t, o.object, o.namespace)
	if !o.deleted {
		if _, err := client.Patch(ctx, "web", types.MergePatchType, []byte(o.subject.change), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := client.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := client.Get(ctx, "web", metav1.GetOptions{})
	o.stale = o.stale && err == nil
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

// makeAgain deletes the object and makes it again without the change, and begins to record the
// operator's requests.
func (o *remade) makeAgain(t *testing.T) {
	t.Helper()
	ctx, client := t.Context(), clientOf(t, o.object, o.namespace)
	if !o.deleted {
		shared.AwaitReady(ctx, t, o.namespace, o.object)
		if err := client.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitGone(ctx, t, client, "web")
	awaitCollected(ctx, t, o.namespace)
	apply(ctx, t, o.namespace, o.subject.object)
	shared.AwaitReady(ctx, t, o.namespace, o.object)
	o.state = settled(ctx, t, creation, o.namespace, nil)
	sabotage.watch(o.namespace, plan{})
	o.versions, o.since = versionsIn(t, o.namespace), time.Now()
}

// assertUntouched asserts that all objects are as makeAgain created them, and that the operator has
// written nothing but statuses and events.
func (o *remade) assertUntouched(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(o.versions, versionsIn(t, o.namespace)); diff != "" {
		t.Errorf("UIDs and generations changed (-before +after):\n%s", diff)
	}
	about := ofNamespace(o.namespace)
	written, err := shared.AuditRequests(o.since, func(event cluster.AuditEvent) bool {
		return about(event) && event.IsWrite() && event.Code < http.StatusMultipleChoices
	})
	if err != nil {
		t.Fatal(err)
	}
	// A patch of an object of the operator's kinds that leaves its generation confirms it, or writes
	// its status.
	own := sets.New("events")
	for _, kind := range kinds {
		own.Insert(kind.Resource)
	}
	for _, request := range written {
		if !own.Has(request.Resource) || request.Verb != "patch" && request.Resource != "events" {
			t.Errorf("the operator has sent: %s %s %s", request.Verb, request.Resource, request.Name)
		}
	}
}

// versionsIn returns the UIDs and generations of the objects in a namespace by resource and name.
func versionsIn(t *testing.T, namespace string) map[string]string {
	t.Helper()
	versions := map[string]string{}
	err := eachObject(t.Context(), namespace, slices.Concat(contents, kinds), func(resource schema.GroupVersionResource, object *unstructured.Unstructured) {
		versions[resource.Resource+"/"+object.GetName()] = fmt.Sprintf("%s/%d", object.GetUID(), object.GetGeneration())
	})
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

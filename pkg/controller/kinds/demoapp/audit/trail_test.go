// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	"k8s.io/client-go/metadata/metadatainformer"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

const (
	auditNamespace = "records"
	retention      = 90 * 24 * time.Hour
)

var (
	now  = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	keys = Keys{SourceNamespace: "example.com/ns", SourceName: "example.com/name", SourceUID: "example.com/uid", Detail: "example.com/detail"}
)

// newTrail returns a trail on a fake API server, and the store of its informer. The test fills the
// store.
func newTrail(t *testing.T, change ...func(*Config)) (*Trail, *kubefake.Clientset, cache.Indexer) {
	t.Helper()
	kube := kubefake.NewClientset(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: auditNamespace}})
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})
	config := Config{
		Namespace: auditNamespace, Manager: "test", Keys: keys, Retention: retention,
		ConfigMaps: kube.CoreV1(), Namespaces: kube.CoreV1(), Informer: informer, Clock: clocktesting.NewFakeClock(now),
	}
	for _, c := range change {
		c(&config)
	}
	trail, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return trail, kube, config.Informer.GetIndexer()
}

// stored returns the metadata of a record with source namespace "ns".
func stored(name string, age time.Duration, reduced bool) *metav1.PartialObjectMetadata {
	record := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: auditNamespace, Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.NewTime(now.Add(-age)),
		Labels:      map[string]string{keys.SourceNamespace: "ns"},
		Annotations: map[string]string{keys.SourceUID: "source"},
	}}
	if reduced {
		record.Annotations[keys.Detail] = reducedValue
	}
	return record
}

// several returns records of increasing age, one minute apart.
func several(prefix string, count int, reduced bool) []*metav1.PartialObjectMetadata {
	records := make([]*metav1.PartialObjectMetadata, 0, count)
	for i := range count {
		records = append(records, stored(fmt.Sprintf("%s-%04d", prefix, i), time.Duration(i)*time.Minute, reduced))
	}
	return records
}

func fill(t *testing.T, store cache.Indexer, records ...*metav1.PartialObjectMetadata) {
	t.Helper()
	for _, record := range records {
		if err := store.Add(record); err != nil {
			t.Fatal(err)
		}
	}
}

func requests(kube *kubefake.Clientset) []string {
	var sent []string
	for _, action := range kube.Actions() {
		sent = append(sent, action.GetVerb()+" "+action.GetResource().Resource)
	}
	kube.ClearActions()
	return sent
}

func TestEnsure(t *testing.T) {
	trail, kube, _ := newTrail(t)
	record := recordOf(spec{Message: "hello"}, state{})

	written, err := trail.Ensure(t.Context(), record)
	if err != nil {
		t.Fatal(err)
	}
	again, err := trail.Ensure(t.Context(), record)
	if err != nil {
		t.Fatal(err)
	}

	if written != "records/ns-a-1767323045" || again != "" {
		t.Errorf("wrote %q, then %q", written, again)
	}
	if diff := cmp.Diff([]string{"create configmaps", "create configmaps", "get configmaps"}, requests(kube)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	object, err := kube.CoreV1().ConfigMaps(auditNamespace).Get(t.Context(), "ns-a-1767323045", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"deleted-at": "2026-01-02T03:04:05Z", "spec": `{"message":"hello"}`, "status": "{}"}
	if diff := cmp.Diff(want, object.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{keys.SourceNamespace: "ns", keys.SourceName: "a"}, object.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{keys.SourceUID: "uid"}, object.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestRecordsOfTheSameSecond(t *testing.T) {
	trail, kube, _ := newTrail(t)
	first, second := recordOf(spec{}, state{}), recordOf(spec{}, state{})
	first.Namespace, first.Name, first.UID = "c", "a-b", "one"
	second.Namespace, second.Name, second.UID = "c-a", "b", "two"

	for range 2 {
		for _, record := range []Record{first, second} {
			if _, err := trail.Ensure(t.Context(), record); err != nil {
				t.Fatal(err)
			}
		}
	}

	list, err := kube.CoreV1().ConfigMaps(auditNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, record := range list.Items {
		sources = append(sources, record.Labels[keys.SourceNamespace]+"/"+record.Labels[keys.SourceName])
	}
	slices.Sort(sources)
	if diff := cmp.Diff([]string{"c-a/b", "c/a-b"}, sources); diff != "" {
		t.Errorf("sources of the records (-want +got):\n%s", diff)
	}
}

func TestDetailOfRecords(t *testing.T) {
	tests := []struct {
		name    string
		stored  []*metav1.PartialObjectMetadata
		reduced bool
		// sweepDue is true if a sweep must follow.
		sweepDue bool
	}{
		{name: "first record"},
		{name: "last record with contents", stored: several("whole", MaxWholeRecords-1, false)},
		{name: "one record more", stored: several("whole", MaxWholeRecords, false), reduced: true},
		{name: "reduced records below the limit", stored: several("reduced", MaxRecords-1, true)},
		{name: "more than MaxRecords", stored: several("reduced", MaxRecords, true), sweepDue: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			trail, kube, store := newTrail(t)
			fill(t, store, test.stored...)

			if _, err := trail.Ensure(t.Context(), recordOf(spec{Message: "hello"}, state{})); err != nil {
				t.Fatal(err)
			}

			object, err := kube.CoreV1().ConfigMaps(auditNamespace).Get(t.Context(), "ns-a-1767323045", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if _, reduced := object.Annotations[keys.Detail]; reduced != test.reduced {
				t.Errorf("annotations are %v", object.Annotations)
			}
			if omitted := slices.Contains(omissions(t, object.Data), "spec"); omitted != test.reduced {
				t.Errorf("spec is %s", object.Data["spec"])
			}
			if due := len(trail.sweepDue) == 1; due != test.sweepDue {
				t.Errorf("sweep due = %t, want %t", due, test.sweepDue)
			}
		})
	}
}

func TestSurplus(t *testing.T) {
	names := func(records []*metav1.PartialObjectMetadata) []string {
		var names []string
		for _, record := range records {
			names = append(names, record.Name)
		}
		return names
	}
	tests := []struct {
		name        string
		records     []*metav1.PartialObjectMetadata
		noRetention bool
		want        []string
	}{
		{name: "no records"},
		{
			name:    "expired",
			records: []*metav1.PartialObjectMetadata{stored("new", retention-time.Second, false), stored("old", retention, false), stored("older", 2*retention, true)},
			want:    []string{"older", "old"},
		},
		{name: "no retention", records: []*metav1.PartialObjectMetadata{stored("older", 2*retention, true)}, noRetention: true},
		{name: "at the limit", records: append(several("whole", 100, false), several("reduced", MaxRecords-100, true)...)},
		{
			name:    "too many, the oldest without contents are removed",
			records: append(several("reduced", MaxRecords-1, true), stored("whole-0", 24*time.Hour, false), stored("whole-1", 48*time.Hour, false), stored("new", 0, true)),
			want:    []string{"reduced-0998", "reduced-0997"},
		},
		{
			name:    "too many with contents",
			records: append(several("whole", MaxRecords+1, false), stored("reduced", 0, true)),
			want:    []string{"reduced", "whole-1000"},
		},
		{
			name:    "too many, one expired",
			records: append(several("reduced", MaxRecords, true), stored("old", retention, false)),
			want:    []string{"old"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			trail, _, _ := newTrail(t, func(config *Config) {
				if test.noRetention {
					config.Retention = 0
				}
			})
			if diff := cmp.Diff(test.want, names(trail.surplus(test.records))); diff != "" {
				t.Errorf("surplus (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSweep(t *testing.T) {
	expired := []*metav1.PartialObjectMetadata{stored("old", retention, false), stored("older", 2*retention, true)}
	unrelated := stored("unrelated", 2*retention, false)
	unrelated.Annotations = nil
	records := corev1.Resource("configmaps")
	tests := []struct {
		name     string
		stored   []*metav1.PartialObjectMetadata
		err      func(name string) error
		requests int
		left     bool
		fails    bool
	}{
		{name: "no surplus", stored: several("new", 3, false)},
		{name: "expired", stored: expired, requests: 2},
		{name: "ConfigMap of others with the labels of a record", stored: []*metav1.PartialObjectMetadata{unrelated}},
		{name: "record is gone", stored: expired, err: func(name string) error { return apierrors.NewNotFound(records, name) }, requests: 2},
		{name: "record was created again", stored: expired, err: func(name string) error { return apierrors.NewConflict(records, name, nil) }, requests: 2},
		{name: "forbidden", stored: expired, err: func(name string) error { return apierrors.NewForbidden(records, name, nil) }, requests: 2, fails: true},
		{name: "one full sweep", stored: several("many", MaxRecords+maxRemoved, true), requests: maxRemoved},
		{name: "more than one sweep", stored: several("many", MaxRecords+maxRemoved+1, true), requests: maxRemoved, left: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			trail, kube, store := newTrail(t)
			fill(t, store, test.stored...)
			var uids []types.UID
			kube.PrependReactor("delete", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
				deletion, ok := action.(clienttesting.DeleteActionImpl)
				if ok {
					uids = append(uids, *deletion.DeleteOptions.Preconditions.UID)
				}
				if test.err == nil {
					return true, nil, nil
				}
				return true, nil, test.err(deletion.Name)
			})

			left, err := trail.sweep(t.Context())

			if left != test.left || (err != nil) != test.fails {
				t.Errorf("left=%t, err=%v", left, err)
			}
			if sent := requests(kube); len(sent) != test.requests || len(uids) != test.requests {
				t.Errorf("%d requests, with %d UIDs, want %d", len(sent), len(uids), test.requests)
			}
			if test.requests > 0 && !slices.Contains([]types.UID{"uid-of-older", "uid-of-many-1999", "uid-of-many-2000"}, uids[0]) {
				t.Errorf("%s was removed first, want the oldest record", uids[0])
			}
		})
	}
}

// TestRun checks the times of the sweeps, with an informer that receives the deletions.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource := corev1.SchemeGroupVersion.WithResource("configmaps")
		expiresIn := func(name string, in time.Duration) *metav1.PartialObjectMetadata {
			record := stored(name, 0, false)
			record.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
			record.CreationTimestamp = metav1.NewTime(time.Now().Add(in - retention))
			return record
		}
		scheme := runtime.NewScheme()
		if err := metav1.AddMetaToScheme(scheme); err != nil {
			t.Fatal(err)
		}
		client := metadatafake.NewSimpleMetadataClient(scheme,
			expiresIn("expired", -time.Hour), expiresIn("soon", 30*time.Minute), expiresIn("later", 3*time.Hour))
		trail, kube, _ := newTrail(t, func(config *Config) {
			config.Clock = clock.RealClock{}
			config.Informer = metadatainformer.NewFilteredMetadataInformer(client, resource, auditNamespace, 0, cache.Indexers{}, nil).Informer()
		})
		var mu sync.Mutex // The sweeps run in another goroutine.
		var removed []string
		var failure error
		kube.PrependReactor("delete", "configmaps", func(action clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			deletion, ok := action.(clienttesting.DeleteActionImpl)
			if !ok || failure != nil {
				return true, nil, failure
			}
			removed = append(removed, deletion.Name)
			return true, nil, client.Tracker().Delete(resource, auditNamespace, deletion.Name)
		})
		expect := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if diff := cmp.Diff(want, removed); diff != "" {
				t.Errorf("removed %s (-want +got):\n%s", what, diff)
			}
			removed = nil
		}
		refuse := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failure = err
		}
		advance := func(duration time.Duration) { <-time.After(duration) }
		stop, cancel := context.WithCancel(t.Context())
		lead, lose := context.WithCancel(t.Context())
		informed, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			trail.config.Informer.RunWithContext(stop)
			close(informed)
		}()
		go func() { ended <- trail.Run(stop, lead) }()

		advance(time.Second)
		expect("at the start", "expired")
		advance(2 * time.Minute)
		expect("before the next sweep")
		advance(time.Hour + 10*time.Minute)
		expect("after an hour", "soon")

		refuse(apierrors.NewForbidden(corev1.Resource("configmaps"), "later", nil))
		advance(3 * time.Hour)
		expect("while the API server refuses")
		refuse(nil)
		trail.sweepDue <- struct{}{}
		advance(2 * sweepDelay)
		expect("in an early sweep", "later")

		lose()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		cancel()
		<-informed
	})
}

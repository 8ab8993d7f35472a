// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package shardcache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	apiserver "k8s.io/apiserver/pkg/sharding"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/test/synctestmain"
)

func TestMain(m *testing.M) { synctestmain.Run(m) }

type object = metav1.PartialObjectMetadata

// namespaces has a namespace of each of two shards.
var namespaces = func() map[int]string {
	found := map[int]string{}
	for i := 0; len(found) < 2; i++ {
		name := fmt.Sprintf("ns%d", i)
		found[Of(name, 2)] = name
	}
	return found
}()

// server is an API server with one resource.
type server struct {
	// honors is true if the server selects shards.
	honors bool

	mu      sync.Mutex
	version int
	objects map[cache.ObjectName]*object
	events  []watch.Event
	// written is closed and replaced by each write.
	written chan struct{}
	// compacted is the resourceVersion before which no watch can start.
	compacted int
	lists     int
	failList  error
	// selectors are the selectors of all requests.
	selectors []string
	// listed are the resourceVersions that lists have asked for.
	listed []string
	// isLate is true while watches send nothing. ended is closed and replaced to end them.
	isLate bool
	ended  chan struct{}
}

func newServer(honors bool) *server {
	return &server{honors: honors, version: 100, objects: map[cache.ObjectName]*object{}, written: make(chan struct{}), ended: make(chan struct{})}
}

// write creates or changes an object in the namespace of a shard, or deletes it.
func (s *server) write(kind watch.EventType, shard int, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := &object{ObjectMeta: metav1.ObjectMeta{Namespace: namespaces[shard], Name: name, UID: "uid", ResourceVersion: strconv.Itoa(s.version)}}
	if key := cache.MetaObjectToName(o); kind == watch.Deleted {
		delete(s.objects, key)
	} else {
		s.objects[key] = o
	}
	s.events = append(s.events, watch.Event{Type: kind, Object: o})
	close(s.written)
	s.written = make(chan struct{})
}

func (s *server) selects(selector string, o *object) bool {
	if !s.honors || selector == "" {
		return true
	}
	parsed, err := apiserver.Parse(selector)
	if err != nil {
		panic(err)
	}
	matches, err := parsed.Matches(o)
	return matches && err == nil
}

// List implements Client.
func (s *server) List(_ context.Context, options metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	s.selectors, s.listed = append(s.selectors, options.ShardSelector), append(s.listed, options.ResourceVersion)
	if s.failList != nil {
		return nil, s.failList
	}
	list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}}
	if s.honors && options.ShardSelector != "" {
		list.ShardInfo = &metav1.ShardInfo{Selector: options.ShardSelector}
	}
	for _, o := range s.objects {
		if s.selects(options.ShardSelector, o) {
			list.Items = append(list.Items, *o)
		}
	}
	return list, nil
}

// Watch implements Client.
func (s *server) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.selectors = append(s.selectors, options.ShardSelector)
	if options.SendInitialEvents != nil {
		return nil, apierrors.NewBadRequest("lists cannot be streamed")
	}
	from, err := strconv.Atoi(options.ResourceVersion)
	if err != nil || from < s.compacted {
		return nil, apierrors.NewResourceExpired("too old resource version")
	}
	proxy := make(chan watch.Event)
	watcher := watch.NewProxyWatcher(proxy)
	next := len(s.events)
	for i, event := range s.events {
		if version, _ := strconv.Atoi(event.Object.(*object).ResourceVersion); version > from {
			next = i
			break
		}
	}
	go s.send(ctx, proxy, watcher.StopChan(), options.ShardSelector, next)
	return watcher, nil
}

func (s *server) send(ctx context.Context, to chan<- watch.Event, stopped <-chan struct{}, selector string, next int) {
	defer close(to)
	for {
		s.mu.Lock()
		events, written, ended := slices.Clone(s.events[next:]), s.written, s.ended
		if s.isLate {
			events = nil
		} else {
			next = len(s.events)
		}
		events = slices.DeleteFunc(events, func(e watch.Event) bool { return !s.selects(selector, e.Object.(*object)) })
		s.mu.Unlock()
		for _, event := range events {
			select {
			case to <- *event.DeepCopy():
			case <-ctx.Done():
				return
			case <-stopped:
				return
			}
		}
		select {
		case <-written:
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-stopped:
			return
		}
	}
}

// follower runs an informer of a server, and records its events.
type follower struct {
	*testing.T

	selection *Selection
	server    *server
	informer  cache.SharedIndexInformer
	stop      context.CancelFunc

	mu     sync.Mutex
	events []string
}

// follow runs an informer in the bubble of the test.
func follow(t *testing.T, selection *Selection, s *server) *follower {
	t.Helper()
	f := &follower{T: t, selection: selection, server: s}
	f.informer = NewInformer(selection, s, s, &object{}, nil, cache.SharedIndexInformerOptions{ObjectDescription: "objects"})
	record := func(what string, o any) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.events = append(f.events, what+" "+o.(*object).Name)
	}
	if _, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { record("added", o) }, UpdateFunc: func(_, o any) { record("updated", o) },
		DeleteFunc: func(o any) { record("deleted", o) },
	}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { f.informer.RunWithContext(ctx) })
	f.stop = func() {
		stop()
		running.Wait()
	}
	t.Cleanup(f.stop)
	synctest.Wait()
	return f
}

// add selects a shard, and fails the test if that takes longer than a minute.
func (f *follower) add(shard int) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
	defer cancel()
	if err := f.selection.Add(ctx, shard); err != nil {
		f.Errorf("shard %d is not cached: %v", shard, err)
	}
}

// expect compares the names of the cached objects, and the events since the last call.
func (f *follower) expect(cached, events []string) {
	f.Helper()
	time.Sleep(2 * settlePoll) // A removal polls the store.
	synctest.Wait()
	names := []string{}
	for _, o := range f.informer.GetStore().List() {
		names = append(names, o.(*object).Name)
	}
	slices.Sort(names)
	if diff := cmp.Diff(cached, names); diff != "" {
		f.Errorf("cached objects (-want +got):\n%s", diff)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.events)
	if diff := cmp.Diff(events, f.events); diff != "" {
		f.Errorf("events (-want +got):\n%s", diff)
	}
	f.events = nil
}

// inBothModes runs a test with an API server that selects shards, and with an API server that does not.
func inBothModes(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	for name, honors := range map[string]bool{"server selects": true, "server does not select": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newServer(honors)) })
		})
	}
}

// TestSelectedShardsAreCached changes the selection. No shard is listed again when another one is
// added or removed.
func TestSelectedShardsAreCached(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *server) {
		s.write(watch.Added, 0, "a0")
		s.write(watch.Added, 1, "a1")
		f := follow(t, NewSelection(2), s)
		f.expect([]string{}, nil)

		f.add(0)
		f.expect([]string{"a0"}, []string{"added a0"})
		f.add(1)
		f.expect([]string{"a0", "a1"}, []string{"added a1"})
		s.write(watch.Modified, 0, "a0")
		s.write(watch.Added, 1, "b1")
		f.expect([]string{"a0", "a1", "b1"}, []string{"added b1", "updated a0"})
		f.selection.Remove(0)
		f.expect([]string{"a1", "b1"}, []string{"deleted a0"})
		s.write(watch.Modified, 0, "a0")
		s.write(watch.Modified, 1, "a1")
		f.expect([]string{"a1", "b1"}, []string{"updated a1"})
		f.add(0)
		f.expect([]string{"a0", "a1", "b1"}, []string{"added a0"})

		if s.lists != 4 {
			t.Errorf("%d lists, want one at the start and one for each added shard", s.lists)
		}
	})
}

// TestShardIsRemovedAndAddedAtOnce: another process may have changed the objects meanwhile, so a
// shard is listed again, although the informer has not seen that it was removed.
func TestShardIsRemovedAndAddedAtOnce(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *server) {
		s.write(watch.Added, 0, "a0")
		s.write(watch.Added, 1, "a1")
		f := follow(t, NewSelection(2), s)
		f.add(0)
		f.add(1)
		f.expect([]string{"a0", "a1"}, []string{"added a0", "added a1"})
		before := s.lists

		f.selection.Remove(1)
		f.add(1)

		f.expect([]string{"a0", "a1"}, []string{"added a1", "deleted a1"})
		if s.lists != before+1 {
			t.Errorf("%d lists, want one of the added shard", s.lists-before)
		}
	})
}

// TestServerStopsSelecting: an API server that restarts without the feature sends the objects of
// all shards, which do not enter the cache.
func TestServerStopsSelecting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		s.write(watch.Added, 0, "a0")
		f := follow(t, NewSelection(2), s)
		f.add(0)
		f.expect([]string{"a0"}, []string{"added a0"})
		if f.selection.filter != byServer {
			t.Errorf("the log names the filter %q", f.selection.filter)
		}
		s.mu.Lock()
		s.honors = false
		s.mu.Unlock()

		s.write(watch.Added, 1, "a1")
		s.write(watch.Modified, 0, "a0")

		f.expect([]string{"a0"}, []string{"updated a0"})
		if f.selection.filter != byClient {
			t.Errorf("the log names the filter %q", f.selection.filter)
		}
		f.add(1)
		f.expect([]string{"a0", "a1"}, []string{"added a1"})
	})
}

// TestChangesOfOthersBeforeShardIsAdded: objects of a shard change while the informer sees no
// events of it. The cache has their newest versions when the shard is added, and never passes over
// a change in the shard that it had before.
func TestChangesOfOthersBeforeShardIsAdded(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *server) {
		s.write(watch.Added, 0, "a0")
		s.write(watch.Added, 1, "a1")
		s.write(watch.Added, 1, "b1")
		f := follow(t, NewSelection(2), s)
		f.add(0)
		f.expect([]string{"a0"}, []string{"added a0"})
		s.write(watch.Modified, 1, "a1")
		s.write(watch.Deleted, 1, "b1")
		s.write(watch.Added, 1, "c1")

		f.add(1)

		f.expect([]string{"a0", "a1", "c1"}, []string{"added a1", "added c1", "deleted b1"})
		stored, _, err := f.informer.GetStore().GetByKey(namespaces[1] + "/a1")
		if err != nil || stored.(*object).ResourceVersion != "104" {
			t.Errorf("cached %v (%v), want the version 104", stored, err)
		}
	})
}

// TestWatchEndsBeforeAddedObjects: a watch ends before it has shown the listed objects of an added
// shard. The shard is not cached before the next watch has shown them.
func TestWatchEndsBeforeAddedObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		f := follow(t, NewSelection(2), s)
		f.add(0)
		s.late(true)
		s.write(watch.Added, 1, "a1") // The position of the watch stays behind.
		added := make(chan error, 1)
		go func() { added <- f.selection.Add(t.Context(), 1) }()
		synctest.Wait()

		s.endWatches()
		time.Sleep(time.Minute)

		if len(added) > 0 {
			t.Error("the shard counts as cached")
		}
		f.expect([]string{}, nil)
		s.late(false)
		if err := <-added; err != nil {
			t.Error(err)
		}
		f.expect([]string{"a1"}, []string{"added a1"})
	})
}

// late holds the events of all watches back, or sends them.
func (s *server) late(isLate bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isLate = isLate
	close(s.written)
	s.written = make(chan struct{})
}

func (s *server) endWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ended)
	s.ended = make(chan struct{})
}

// TestStoreIsComplete: when Add returns, the store has the shard, and its resourceVersion is the
// resourceVersion of the stream.
func TestStoreIsComplete(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *server) {
		f := follow(t, NewSelection(2), s)
		f.add(0)
		for i := range 1000 {
			s.write(watch.Added, 1, fmt.Sprint("a", i))
		}
		s.write(watch.Added, 0, "last")
		synctest.Wait()

		f.add(1)

		if cached, version := len(f.informer.GetStore().ListKeys()), f.informer.GetStore().LastStoreSyncResourceVersion(); cached != 1001 || version != "1101" {
			t.Errorf("%d objects at the resourceVersion %s, want 1001 at 1101", cached, version)
		}
	})
}

// TestExpiredPosition: a watch cannot go on where the old one was, so the informer lists again.
func TestExpiredPosition(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *server) {
		s.write(watch.Added, 1, "a1")
		f := follow(t, NewSelection(2), s)
		f.add(0)
		s.mu.Lock()
		s.compacted = 102
		s.honors = true // The position stays behind.
		s.mu.Unlock()
		s.write(watch.Modified, 1, "a1")

		f.add(1)

		f.expect([]string{"a1"}, []string{"added a1"})
	})
}

// TestAddWaitsForFailingInformer: a shard is not complete while an informer that has listed before
// cannot list.
func TestAddWaitsForFailingInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		s.write(watch.Added, 0, "a0")
		f := follow(t, NewSelection(2), s)
		s.fail(apierrors.NewInternalError(errors.New("no answer")))
		added := make(chan error, 1)
		go func() { added <- f.selection.Add(t.Context(), 0) }()
		time.Sleep(time.Minute)
		if len(added) > 0 {
			t.Error("the shard counts as cached")
		}
		s.fail(nil)
		if err := <-added; err != nil {
			t.Error(err)
		}
		f.expect([]string{"a0"}, []string{"added a0"})
	})
}

// TestListOfAddedShardFails: the shards that are cached are still watched, and another selection is
// tried at once.
func TestListOfAddedShardFails(t *testing.T) {
	inBothModes(t, func(t *testing.T, s *server) {
		s.write(watch.Added, 0, "a0")
		s.write(watch.Added, 1, "a1")
		f := follow(t, NewSelection(2), s)
		f.add(0)
		f.expect([]string{"a0"}, []string{"added a0"})
		s.fail(apierrors.NewInternalError(errors.New("no answer")))
		before := s.lists
		added := make(chan error, 1)
		go func() { added <- f.selection.Add(t.Context(), 1) }()
		time.Sleep(10 * time.Minute)

		s.write(watch.Modified, 0, "a0")
		f.expect([]string{"a0"}, []string{"updated a0"})
		if tries := s.lists - before; len(added) > 0 || tries < 10 || tries > 50 {
			t.Errorf("%d lists in ten minutes, and %d results", tries, len(added))
		}
		f.selection.Remove(0)
		s.fail(nil)

		if err := <-added; err != nil {
			t.Error(err)
		}
		f.expect([]string{"a1"}, []string{"added a1", "deleted a0"})
	})
}

func (s *server) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failList = err
}

// TestAddDoesNotWait for an informer that has ended, that has never listed, or whose kind is not
// served any more.
func TestAddDoesNotWait(t *testing.T) {
	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "objects"}, "")
	tests := map[string]func(f *follower){
		"ended":      func(f *follower) { f.stop() },
		"not served": func(f *follower) { f.server.fail(gone) },
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := follow(t, NewSelection(2), newServer(true))
				test(f)

				f.add(0)
			})
		})
	}
	t.Run("never listed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(true)
			s.failList = errors.New("forbidden")
			s.write(watch.Added, 0, "a0")
			f := follow(t, NewSelection(2), s)

			f.add(0)

			s.fail(nil)
			time.Sleep(time.Minute)
			f.expect([]string{"a0"}, []string{"added a0"})
		})
	})
}

// TestWithoutSelection: an informer without a selection sends no selector. Its first list must not
// be answered from the past.
func TestWithoutSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(true)
		s.write(watch.Added, 0, "a0")
		s.write(watch.Added, 1, "a1")

		f := follow(t, nil, s)

		f.expect([]string{"a0", "a1"}, []string{"added a0", "added a1"})
		if slices.ContainsFunc(s.selectors, func(selector string) bool { return selector != "" }) {
			t.Errorf("selectors %q", s.selectors)
		}
		if diff := cmp.Diff([]string{""}, s.listed); diff != "" {
			t.Errorf("resourceVersions of lists (-want +got):\n%s", diff)
		}
	})
}

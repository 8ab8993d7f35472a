// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package shardcache

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// pageSize is the number of objects in one answer to a list of added shards.
const pageSize = 500

// anyVersion is the resourceVersion of the first list of a reflector whose API server does not
// stream lists. It allows an answer of any age from an API server that lags behind. Without it, the
// list is a consistent read, as a streamed one is.
const anyVersion = "0"

// Client lists and watches the objects of one resource, in one namespace or in all. L is the type
// of lists.
type Client[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// NewInformer returns an informer of the objects that client lists, and that belong to selected
// shards. Its first list is not older than its start. clientset is the clientset of the client,
// which knows how informers may list. example has the type of the objects. narrow sets selectors of
// lists and watches. It is optional.
//
// If selection is nil, the informer is an ordinary informer. Otherwise, the objects must have a
// namespace.
func NewInformer[L runtime.Object](
	selection *Selection, client Client[L], clientset any, example runtime.Object, narrow func(*metav1.ListOptions),
	options cache.SharedIndexInformerOptions,
) cache.SharedIndexInformer {
	if narrow == nil {
		narrow = func(*metav1.ListOptions) {}
	}
	requests := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			narrow(&options)
			if options.ResourceVersion == anyVersion {
				options.ResourceVersion = ""
			}
			return client.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			narrow(&options)
			return client.Watch(ctx, options)
		},
	}
	if selection == nil {
		return cache.NewSharedIndexInformerWithOptions(cache.ToListWatcherWithWatchListSemantics(requests, clientset), example, options)
	}
	lister := &source{selection: selection, requests: requests, example: example, name: options.ObjectDescription}
	if lister.name == "" {
		lister.name = strings.TrimPrefix(fmt.Sprintf("%T", example), "*")
	}
	informer := cache.NewSharedIndexInformerWithOptions(lister, example, options)
	lister.store = informer.GetStore()
	return informer
}

// source lists and watches the selected objects for the reflector of one informer. The reflector
// calls one method at a time.
type source struct {
	selection *Selection
	requests  *cache.ListWatch
	example   runtime.Object
	name      string
	// store is the store of the informer.
	store cache.Store
	// shards are those whose objects the reflector has got.
	shards shardSet
	// awaited are the added shards with listed objects that the watch has yet to show, because they
	// have changed after the position of the stream. The value is the newest resourceVersion of the
	// objects. It outlives a watch that ends before.
	awaited map[int]string
	// started is true after the first request, and listed after the first list.
	started, listed bool
}

var _ cache.ListerWatcherWithContext = &source{}

// IsWatchListSemanticsUnSupported makes the reflector list instead of streaming a list. Only the
// answer to a list says whether the API server has selected the objects.
func (s *source) IsWatchListSemanticsUnSupported() bool { return true }

// List implements cache.ListerWatcher.
func (s *source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher.
func (s *source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext implements cache.ListerWatcherWithContext. ctx is the context of the informer.
func (s *source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if !s.started {
		s.started = true
		context.AfterFunc(ctx, func() { s.selection.end(s) })
	}
	if options.Continue == "" {
		s.selection.begin(ctx, s)
		s.shards, _ = s.selection.next()
		s.awaited = map[int]string{}
	}
	list, err := s.list(ctx, options, s.shards)
	if err != nil && (!s.listed || apierrors.IsNotFound(err)) {
		// No shard waits for an informer that cannot start, because its kind may be forbidden or broken.
		// Readers of the informer wait for its first list. A kind that is not served has no objects.
		s.selection.end(s)
	}
	return list, err
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (s *source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.listed = true
	requested, err := s.watch(ctx, options, s.shards)
	if err != nil {
		return nil, err
	}
	return newStream(ctx, s, options, requested), nil
}

// list returns one page of the objects of the shards. The list is a consistent read, because
// another replica may have worked on a shard until a moment ago.
func (s *source) list(ctx context.Context, options metav1.ListOptions, shards shardSet) (runtime.Object, error) {
	options.ShardSelector = s.selection.selectorOf(shards)
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	if len(shards) == 0 {
		options.Limit = 1 // The list is only for its resourceVersion.
	}
	list, err := s.requests.ListWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	if sharded, ok := list.(metav1.ShardedListInterface); ok && sharded.GetShardInfo() != nil {
		s.selection.logFilter(ctx, byServer)
	}
	dropped, err := s.dropOthers(list, shards)
	if err != nil {
		return nil, err
	}
	if dropped {
		s.selection.logFilter(ctx, byClient)
	}
	if len(shards) == 0 {
		accessor, err := meta.ListAccessor(list)
		if err != nil {
			return nil, fmt.Errorf("list of %s: %w", s.name, err)
		}
		accessor.SetContinue("")
	}
	return list, nil
}

// dropOthers drops the objects of other shards from a list, and reports whether there were some.
func (s *source) dropOthers(list runtime.Object, shards shardSet) (dropped bool, err error) {
	var kept []runtime.Object
	all := 0
	err = meta.EachListItemWithAlloc(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		all++
		if s.selection.isSelected(object.GetNamespace(), shards) {
			kept = append(kept, item)
		}
		return nil
	})
	if err == nil && len(kept) < all {
		err = meta.SetList(list, kept)
	}
	if err != nil {
		return false, fmt.Errorf("list of %s: %w", s.name, err)
	}
	return len(kept) < all, nil
}

// listAll returns all objects of the shards. Without shards, it sends no request.
func (s *source) listAll(ctx context.Context, shards shardSet) ([]runtime.Object, error) {
	var all []runtime.Object
	if len(shards) == 0 {
		return nil, nil
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := s.list(ctx, options, shards)
		if err != nil {
			return nil, err
		}
		items, err := meta.ExtractListWithAlloc(list)
		if err != nil {
			return nil, fmt.Errorf("list of %s: %w", s.name, err)
		}
		accessor, err := meta.ListAccessor(list)
		if err != nil {
			return nil, fmt.Errorf("list of %s: %w", s.name, err)
		}
		all = append(all, items...)
		if options.Continue = accessor.GetContinue(); options.Continue == "" {
			return all, nil
		}
	}
}

// watch starts a watch of the objects of the shards. An API server that does not select them sends
// the objects of other shards, too.
func (s *source) watch(ctx context.Context, options metav1.ListOptions, shards shardSet) (watch.Interface, error) {
	options.ShardSelector = s.selection.selectorOf(shards)
	return s.requests.WatchWithContext(ctx, options)
}

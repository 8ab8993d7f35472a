// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// defaultLimit is the default of Sources.Limit.
const defaultLimit = 32 << 20

// Object identifies a ConfigMap or a Secret that owners read.
type Object struct {
	Kind releasev1alpha1.ValuesKind
	Name cache.ObjectName
}

// String returns the object's kind, namespace and name, for an index of owners.
func (o Object) String() string { return string(o.Kind) + "/" + o.Name.String() }

// Key identifies one key of such an object.
type Key struct {
	Object

	Key string
}

// Sources reads single keys of ConfigMaps and Secrets. It watches the objects' metadata
// and caches the keys in use. An object is read only after it has changed, and is never
// kept as a whole.
type Sources struct {
	// Limit is the maximum size of all cached values, in bytes; 32 MiB by default. The
	// largest objects beyond it are read in each pass that needs them.
	Limit int

	secrets    corev1client.SecretsGetter
	configMaps corev1client.ConfigMapsGetter
	// metadata has the cached metadata, and needs the watches that start on demand, both
	// by kind.
	metadata map[releasev1alpha1.ValuesKind]controller.Scoped[*metav1.PartialObjectMetadata]
	needs    map[releasev1alpha1.ValuesKind]map[string]Watch
	// queue gets the owners that read a key before its watch was synced.
	queue controller.Enqueuer

	mu    sync.Mutex
	known map[Object]*knownObject
	// kept is the size of all values in known.
	kept int
	// users are the keys that each owner uses.
	users map[cache.ObjectName][]Key
}

// knownObject caches the keys in use of an object.
type knownObject struct {
	uid             types.UID
	resourceVersion string
	values          map[string]knownValue
}

// size is the size of the object's cached values, in bytes.
func (o *knownObject) size() int {
	size := 0
	for _, value := range o.values {
		size += len(value.text)
	}
	return size
}

type knownValue struct {
	users int
	text  string
	found bool
}

// NewSources returns Sources that read with the clients. When a watch is synced, the
// owners that waited for it are enqueued in queue.
func NewSources(secrets corev1client.SecretsGetter, configMaps corev1client.ConfigMapsGetter, queue controller.Enqueuer) *Sources {
	return &Sources{
		secrets: secrets, configMaps: configMaps, queue: queue,
		metadata: map[releasev1alpha1.ValuesKind]controller.Scoped[*metav1.PartialObjectMetadata]{
			releasev1alpha1.ValuesFromSecret: {}, releasev1alpha1.ValuesFromConfigMap: {},
		},
		needs: map[releasev1alpha1.ValuesKind]map[string]Watch{releasev1alpha1.ValuesFromConfigMap: {}},
		known: map[Object]*knownObject{}, Limit: defaultLimit,
		users: map[cache.ObjectName][]Key{},
	}
}

// Watch is an informer that starts when it is first needed.
type Watch interface {
	Informer() cache.SharedIndexInformer
	// Need returns nil if the informer is synced. Otherwise it returns a
	// *controller.UnfilledError, and enqueues the key when the state of the informer
	// changes.
	Need(key cache.ObjectName, queue controller.Enqueuer) error
}

// Watch adds an indexer with the metadata of the objects of a kind in a namespace.
func (s *Sources) Watch(kind releasev1alpha1.ValuesKind, namespace string, indexer cache.Indexer) {
	s.metadata[kind][namespace] = indexer
}

// WatchOnDemand adds a watch that starts when an owner first needs it.
func (s *Sources) WatchOnDemand(kind releasev1alpha1.ValuesKind, namespace string, watch Watch) {
	s.metadata[kind][namespace] = watch.Informer().GetIndexer()
	s.needs[kind][namespace] = watch
}

// Version identifies the content of an object without being derived from it. It is empty
// if the object does not exist.
func (s *Sources) Version(source Object) string {
	object, ok := s.metadata[source.Kind].Get(source.Name)
	if !ok {
		return ""
	}
	return string(object.UID) + "/" + object.ResourceVersion
}

// Found is the value of a key, or says that it is missing.
type Found struct {
	Text            string
	NoObject, NoKey bool
}

// Read returns the value of a key for an owner that uses it. The error wraps a
// *controller.UnfilledError while the value is not known.
func (s *Sources) Read(ctx context.Context, owner cache.ObjectName, key Key) (Found, error) {
	for _, namespace := range []string{metav1.NamespaceAll, key.Name.Namespace} {
		if watch, ok := s.needs[key.Kind][namespace]; ok {
			if err := watch.Need(owner, s.queue); err != nil {
				return Found{}, fmt.Errorf("%ss cannot be watched: %w", key.Kind, err)
			}
		}
	}
	object, ok := s.metadata[key.Kind].Get(key.Name)
	if !ok {
		return Found{NoObject: true}, nil
	}
	value, fresh := s.remembered(key, object)
	if !fresh {
		data, live, err := s.fetch(ctx, key.Object)
		if apierrors.IsNotFound(err) {
			return Found{NoObject: true}, nil
		}
		if err != nil {
			return Found{}, err
		}
		value = s.remember(key, live, data)
	}
	return Found{Text: value.text, NoKey: !value.found}, nil
}

// remembered returns the cached value of a key. fresh says that the object has not
// changed since.
func (s *Sources) remembered(key Key, object *metav1.PartialObjectMetadata) (value knownValue, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[key.Object]
	if known == nil || known.uid != object.UID || known.resourceVersion != object.ResourceVersion {
		return knownValue{}, false
	}
	value, ok := known.values[key.Key]
	return value, ok
}

// fetch reads an object and returns its data.
func (s *Sources) fetch(ctx context.Context, source Object) (data map[string]string, live metav1.Object, err error) {
	data = map[string]string{}
	if source.Kind == releasev1alpha1.ValuesFromConfigMap {
		configMap, err := s.configMaps.ConfigMaps(source.Name.Namespace).Get(ctx, source.Name.Name, metav1.GetOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("get ConfigMap %s: %w", source.Name, err)
		}
		for key, value := range configMap.BinaryData {
			data[key] = string(value)
		}
		for key, value := range configMap.Data {
			data[key] = value
		}
		return data, configMap, nil
	}
	secret, err := s.secrets.Secrets(source.Name.Namespace).Get(ctx, source.Name.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("get Secret %s: %w", source.Name, err)
	}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data, secret, nil
}

// remember caches the keys in use of an object, and returns one of them.
func (s *Sources) remember(key Key, live metav1.Object, data map[string]string) knownValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := data[key.Key]
	value := knownValue{text: text, found: ok}
	known := s.known[key.Object]
	if known == nil {
		return value // The owner no longer uses the key.
	}
	known.uid, known.resourceVersion = live.GetUID(), live.GetResourceVersion()
	for name, was := range known.values {
		text, ok := data[name]
		s.kept += len(text) - len(was.text)
		known.values[name] = knownValue{users: was.users, text: text, found: ok}
	}
	for s.kept > s.Limit {
		s.forgetLargest()
	}
	return value
}

// forgetLargest drops the values of the object with the largest size, so that a large
// object does not evict the small ones of other owners.
func (s *Sources) forgetLargest() {
	var largest *knownObject
	most := -1
	for _, known := range s.known {
		if size := known.size(); size > most {
			largest, most = known, size
		}
	}
	s.kept -= most
	largest.resourceVersion = "" // Forces the next read.
	for name, was := range largest.values {
		largest.values[name] = knownValue{users: was.users}
	}
}

// Kept is the size of all cached values, in bytes.
func (s *Sources) Kept() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept
}

// Use records the keys that an owner reads, and drops the keys that no owner reads any
// more.
func (s *Sources) Use(owner cache.ObjectName, keys []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// New keys are counted first, so that keys which stay are not dropped in between.
	for _, key := range keys {
		s.count(key, 1)
	}
	for _, key := range s.users[owner] {
		s.count(key, -1)
	}
	if len(keys) == 0 {
		delete(s.users, owner)
		return
	}
	s.users[owner] = keys
}

func (s *Sources) count(key Key, change int) {
	known := s.known[key.Object]
	if known == nil {
		known = &knownObject{values: map[string]knownValue{}}
		s.known[key.Object] = known
	}
	value, ok := known.values[key.Key]
	if !ok {
		// The cached resource version does not cover the new key.
		known.resourceVersion = ""
	}
	value.users += change
	known.values[key.Key] = value
	if value.users == 0 {
		s.kept -= len(value.text)
		delete(known.values, key.Key)
	}
	if len(known.values) == 0 {
		delete(s.known, key.Object)
	}
}

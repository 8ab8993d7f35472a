// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// String returns the object's kind, namespace and name.
func (o Object) String() string { return string(o.Kind) + "/" + o.Name.String() }

// Key identifies one key of such an object.
type Key struct {
	Object

	Key string
}

// Owner is an object that reads keys. Its queue distinguishes owners of several kinds.
type Owner struct {
	Queue controller.Enqueuer
	Name  cache.ObjectName
}

// Config has the clients and watches of [Sources].
type Config struct {
	Secrets    corev1client.SecretsGetter
	ConfigMaps corev1client.ConfigMapsGetter
	// SecretWatches and ConfigMapWatches watch the metadata of all Secrets and ConfigMaps, by
	// watched namespace. They start when an owner first needs them.
	SecretWatches, ConfigMapWatches map[string]Watch
}

// Sources reads single keys of ConfigMaps and Secrets, for all kinds of a process. It watches the
// objects' metadata and caches the keys in use. An object is read only after it has changed, and is
// never kept as a whole. A change enqueues the owners that use the object.
type Sources struct {
	// Limit is the maximum size of all cached values, in bytes; 32 MiB by default. The
	// largest objects beyond it are read in each pass that needs them.
	Limit int

	secrets    corev1client.SecretsGetter
	configMaps corev1client.ConfigMapsGetter
	// watches and metadata have the watches and their caches, by kind.
	watches  map[releasev1alpha1.ValuesKind]map[string]Watch
	metadata map[releasev1alpha1.ValuesKind]controller.Scoped[*metav1.PartialObjectMetadata]

	mu    sync.Mutex
	known map[Object]*knownObject
	// kept is the size of all values in known.
	kept int
	// users are the keys that each owner uses.
	users map[Owner][]Key
}

// knownObject caches the keys in use of an object.
type knownObject struct {
	uid             types.UID
	resourceVersion string
	values          map[string]knownValue
	// readers has the number of keys that each owner uses.
	readers map[Owner]int
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

// NewSources returns Sources that read with the clients of config.
func NewSources(config Config) (*Sources, error) {
	s := &Sources{
		secrets: config.Secrets, configMaps: config.ConfigMaps, Limit: defaultLimit,
		watches: map[releasev1alpha1.ValuesKind]map[string]Watch{
			releasev1alpha1.ValuesFromSecret: config.SecretWatches, releasev1alpha1.ValuesFromConfigMap: config.ConfigMapWatches,
		},
		metadata: map[releasev1alpha1.ValuesKind]controller.Scoped[*metav1.PartialObjectMetadata]{},
		known:    map[Object]*knownObject{}, users: map[Owner][]Key{},
	}
	for kind, watches := range s.watches {
		s.metadata[kind] = controller.Scoped[*metav1.PartialObjectMetadata]{}
		for namespace, watch := range watches {
			s.metadata[kind][namespace] = watch.Informer().GetIndexer()
			handler := controller.MapHandler(readers{s, kind}, func(object *metav1.PartialObjectMetadata) []cache.ObjectName {
				return []cache.ObjectName{cache.MetaObjectToName(object)}
			}, controller.Always[*metav1.PartialObjectMetadata](controller.SpecChange))
			if _, err := controller.AddHandler(string(kind)+"s", watch.Informer(), handler); err != nil {
				return nil, err
			}
		}
	}
	return s, nil
}

// Watch is an informer that starts when it is first needed.
type Watch interface {
	Informer() cache.SharedIndexInformer
	// Need returns nil if the informer is synced. Otherwise it returns a
	// *controller.UnfilledError, and enqueues the key when the state of the informer
	// changes.
	Need(key cache.ObjectName, queue controller.Enqueuer) error
}

// readers is the queue of a changed object: it enqueues the owners that use the object.
type readers struct {
	sources *Sources
	kind    releasev1alpha1.ValuesKind
}

// Enqueue implements controller.Enqueuer.
func (r readers) Enqueue(object cache.ObjectName, why controller.Reason) {
	for _, owner := range r.sources.readersOf(Object{r.kind, object}) {
		owner.Queue.Enqueue(owner.Name, why)
	}
}

// readersOf returns the owners that use keys of an object.
func (s *Sources) readersOf(object Object) []Owner {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[object]
	if known == nil {
		return nil
	}
	return slices.Collect(maps.Keys(known.readers))
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
func (s *Sources) Read(ctx context.Context, owner Owner, key Key) (Found, error) {
	for _, namespace := range []string{metav1.NamespaceAll, key.Name.Namespace} {
		if watch, ok := s.watches[key.Kind][namespace]; ok {
			if err := watch.Need(owner.Name, owner.Queue); err != nil {
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
func (s *Sources) Use(owner Owner, keys []Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// New keys are counted first, so that keys which stay are not dropped in between.
	for _, key := range keys {
		s.count(owner, key, 1)
	}
	for _, key := range s.users[owner] {
		s.count(owner, key, -1)
	}
	if len(keys) == 0 {
		delete(s.users, owner)
		return
	}
	s.users[owner] = keys
}

func (s *Sources) count(owner Owner, key Key, change int) {
	known := s.known[key.Object]
	if known == nil {
		known = &knownObject{values: map[string]knownValue{}, readers: map[Owner]int{}}
		s.known[key.Object] = known
	}
	if known.readers[owner] += change; known.readers[owner] == 0 {
		delete(known.readers, owner)
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

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// maxKeptSources is how many bytes of values are kept of all ConfigMaps and Secrets
// together. Objects beyond it are read in each pass that needs them.
const maxKeptSources = 32 << 20

// bySource indexes DemoApps by the ConfigMaps and Secrets that they read.
const bySource = "sources"

// sourceObject is a ConfigMap or a Secret that apps read.
type sourceObject struct {
	kind   releasev1alpha1.ValuesKind
	object cache.ObjectName
}

// String is the object's value in the index.
func (o sourceObject) String() string { return string(o.kind) + "/" + o.object.String() }

// sourceKey is one key of such an object.
type sourceKey struct {
	sourceObject

	key string
}

// sourcesOf are all that an app reads.
func sourcesOf(app *v1alpha1.DemoApp) []sourceKey {
	var keys []sourceKey
	add := func(kind releasev1alpha1.ValuesKind, name, key string) {
		object := cache.ObjectName{Namespace: app.Namespace, Name: name}
		keys = append(keys, sourceKey{sourceObject{kind, object}, key})
	}
	if from := app.Spec.APIKeyFrom; from != nil {
		add(releasev1alpha1.ValuesFromSecret, from.Name, from.Key)
	}
	for _, from := range app.Spec.ValuesFrom {
		add(from.Kind, from.Name, orElse(from.Key, releasev1alpha1.DefaultValuesKey))
	}
	return keys
}

func sourceIndex(object any) ([]string, error) {
	app, ok := object.(*v1alpha1.DemoApp)
	if !ok {
		return nil, nil
	}
	var values []string
	for _, key := range sourcesOf(app) {
		values = append(values, key.sourceObject.String())
	}
	return values, nil
}

// readersOf are the apps that read an object of a kind.
func (c *Controller) readersOf(kind releasev1alpha1.ValuesKind) func(*metav1.PartialObjectMetadata) []cache.ObjectName {
	return func(object *metav1.PartialObjectMetadata) []cache.ObjectName {
		source := sourceObject{kind, cache.MetaObjectToName(object)}
		apps := c.cached.ByIndex(object.Namespace, bySource, source.String())
		readers := make([]cache.ObjectName, 0, len(apps))
		for _, app := range apps {
			readers = append(readers, cache.MetaObjectToName(app))
		}
		return readers
	}
}

// sources reads single keys of ConfigMaps and Secrets. It watches the objects'
// metadata and keeps the keys that were asked for, so that an object is read
// only when it has changed, and never kept whole.
type sources struct {
	secrets    corev1client.SecretsGetter
	configMaps corev1client.ConfigMapsGetter
	// metadata is what is known of the objects, and needs what has to be filled
	// before it can be asked, both by kind.
	metadata map[releasev1alpha1.ValuesKind]controller.Scoped[*metav1.PartialObjectMetadata]
	needs    map[releasev1alpha1.ValuesKind]map[string]Watch
	// queue gets the apps that asked before it was.
	queue controller.Enqueuer

	mu    sync.Mutex
	known map[sourceObject]*knownObject
	// kept is the size of all values in known, which limit bounds.
	kept, limit int
	// users are the keys that each app asked for.
	users map[cache.ObjectName][]sourceKey
}

// knownObject is what is kept of an object: the keys that somebody uses.
type knownObject struct {
	uid             types.UID
	resourceVersion string
	values          map[string]knownValue
}

// size is how many bytes of values are kept of the object.
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

func newSources(secrets corev1client.SecretsGetter, configMaps corev1client.ConfigMapsGetter) *sources {
	return &sources{
		secrets: secrets, configMaps: configMaps,
		metadata: map[releasev1alpha1.ValuesKind]controller.Scoped[*metav1.PartialObjectMetadata]{
			releasev1alpha1.ValuesFromSecret: {}, releasev1alpha1.ValuesFromConfigMap: {},
		},
		needs: map[releasev1alpha1.ValuesKind]map[string]Watch{releasev1alpha1.ValuesFromConfigMap: {}},
		known: map[sourceObject]*knownObject{}, limit: maxKeptSources,
		users: map[cache.ObjectName][]sourceKey{},
	}
}

// version identifies the content of an object without being derived from it; empty when
// the object does not exist.
func (s *sources) version(source sourceObject) string {
	object, ok := s.metadata[source.kind].Get(source.object)
	if !ok {
		return ""
	}
	return string(object.UID) + "/" + object.ResourceVersion
}

// found is what a key holds, or why it holds nothing.
type found struct {
	text string
	// noObject and noKey tell what is missing.
	noObject, noKey bool
}

// read returns what a key holds, for an app that uses it. The error wraps a
// *controller.UnfilledError when that is not known yet.
func (s *sources) read(ctx context.Context, app cache.ObjectName, key sourceKey) (found, error) {
	for _, namespace := range []string{metav1.NamespaceAll, key.object.Namespace} {
		if watch, ok := s.needs[key.kind][namespace]; ok {
			if err := watch.Need(app, s.queue); err != nil {
				return found{}, fmt.Errorf("%ss cannot be watched: %w", key.kind, err)
			}
		}
	}
	object, ok := s.metadata[key.kind].Get(key.object)
	if !ok {
		return found{noObject: true}, nil
	}
	value, fresh := s.remembered(key, object)
	if !fresh {
		data, live, err := s.fetch(ctx, key.sourceObject)
		if apierrors.IsNotFound(err) {
			return found{noObject: true}, nil
		}
		if err != nil {
			return found{}, err
		}
		value = s.remember(key, live, data)
	}
	return found{text: value.text, noKey: !value.found}, nil
}

// remembered is what is known of a key; fresh says that the object has not
// changed since.
func (s *sources) remembered(key sourceKey, object *metav1.PartialObjectMetadata) (value knownValue, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.known[key.sourceObject]
	if known == nil || known.uid != object.UID || known.resourceVersion != object.ResourceVersion {
		return knownValue{}, false
	}
	value, ok := known.values[key.key]
	return value, ok
}

// fetch reads an object and returns its data.
func (s *sources) fetch(ctx context.Context, source sourceObject) (data map[string]string, live metav1.Object, err error) {
	data = map[string]string{}
	if source.kind == releasev1alpha1.ValuesFromConfigMap {
		configMap, err := s.configMaps.ConfigMaps(source.object.Namespace).Get(ctx, source.object.Name, metav1.GetOptions{})
		if err != nil {
			return nil, nil, fmt.Errorf("get ConfigMap %s: %w", source.object, err)
		}
		for key, value := range configMap.BinaryData {
			data[key] = string(value)
		}
		for key, value := range configMap.Data {
			data[key] = value
		}
		return data, configMap, nil
	}
	secret, err := s.secrets.Secrets(source.object.Namespace).Get(ctx, source.object.Name, metav1.GetOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("get Secret %s: %w", source.object, err)
	}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data, secret, nil
}

// remember keeps the keys of an object that somebody uses, and returns one.
func (s *sources) remember(key sourceKey, live metav1.Object, data map[string]string) knownValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := data[key.key]
	value := knownValue{text: text, found: ok}
	known := s.known[key.sourceObject]
	if known == nil {
		return value // Its user has gone meanwhile.
	}
	known.uid, known.resourceVersion = live.GetUID(), live.GetResourceVersion()
	for name, was := range known.values {
		text, ok := data[name]
		s.kept += len(text) - len(was.text)
		known.values[name] = knownValue{users: was.users, text: text, found: ok}
	}
	for s.kept > s.limit {
		s.forgetLargest()
	}
	return value
}

// forgetLargest drops the values of the object that has the most of them. Small ones
// stay, whatever others bring.
func (s *sources) forgetLargest() {
	var largest *knownObject
	most := -1
	for _, known := range s.known {
		if size := known.size(); size > most {
			largest, most = known, size
		}
	}
	s.kept -= most
	largest.resourceVersion = "" // It is read again before it is used.
	for name, was := range largest.values {
		largest.values[name] = knownValue{users: was.users}
	}
}

// use notes all that an app reads; what it reads no more is let go of.
func (s *sources) use(app cache.ObjectName, keys []sourceKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The new ones first, so that what stays is not forgotten in between.
	for _, key := range keys {
		s.count(key, 1)
	}
	for _, key := range s.users[app] {
		s.count(key, -1)
	}
	if len(keys) == 0 {
		delete(s.users, app)
		return
	}
	s.users[app] = keys
}

func (s *sources) count(key sourceKey, change int) {
	known := s.known[key.sourceObject]
	if known == nil {
		known = &knownObject{values: map[string]knownValue{}}
		s.known[key.sourceObject] = known
	}
	value, ok := known.values[key.key]
	if !ok {
		// What is known of the object's other keys says nothing of this one.
		known.resourceVersion = ""
	}
	value.users += change
	known.values[key.key] = value
	if value.users == 0 {
		s.kept -= len(value.text)
		delete(known.values, key.key)
	}
	if len(known.values) == 0 {
		delete(s.known, key.sourceObject)
	}
}

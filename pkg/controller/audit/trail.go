// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Name is the name of the sweeps in logs.
const Name = "audit"

// Limits of the records about the objects of one namespace.
const (
	// MaxWholeRecords is the number of records with contents from which on further ones hold digests only.
	MaxWholeRecords = 100
	// MaxRecords is the number of records beyond which records are removed.
	MaxRecords = 1000
)

// reducedValue is the value of [Keys.Detail] on records that hold digests only.
const reducedValue = "digests"

// bySource indexes records by the namespace of the deleted object.
const bySource = "source"

// Keys are the keys of the labels and annotations of a record.
type Keys struct {
	// SourceNamespace and SourceName are labels: the namespace and the name of the deleted object.
	SourceNamespace, SourceName string
	// SourceUID is an annotation: the UID of the deleted object.
	SourceUID string
	// Detail is an annotation of records that hold digests only.
	Detail string
}

// Config is what a [Trail] is built from.
type Config struct {
	// Namespace receives the records. It is created if missing.
	Namespace string
	// Manager is the field manager of the records.
	Manager string
	Keys    Keys
	// Retention is the age from which on records are removed; 0 keeps them for good.
	Retention time.Duration

	ConfigMaps corev1client.ConfigMapsGetter
	Namespaces corev1client.NamespacesGetter
	// Informer watches the metadata of the ConfigMaps of Namespace that have the label Keys.SourceNamespace. It is not
	// shared with others and not started yet.
	Informer cache.SharedIndexInformer
	Clock    clock.Clock
}

// Trail is the records of one namespace. It is safe for concurrent use.
type Trail struct {
	config Config
	stored cache.Indexer
	// crowded has an element when a source namespace has too many records.
	crowded chan struct{}
}

// New returns a trail on the informer of config, which it neither starts nor stops.
func New(config Config) (*Trail, error) {
	t := &Trail{config: config, stored: config.Informer.GetIndexer(), crowded: make(chan struct{}, 1)}
	err := errors.Join(
		config.Informer.SetTransform(t.slim),
		config.Informer.AddIndexers(cache.Indexers{bySource: t.sourceOf}),
	)
	if err != nil {
		return nil, fmt.Errorf("watch audit records: %w", err)
	}
	return t, nil
}

// Namespace is where the records are.
func (t *Trail) Namespace() string { return t.config.Namespace }

// Synced is the cache that records are counted in.
func (t *Trail) Synced() []controller.NamedSync {
	return []controller.NamedSync{{Name: "audit records", HasSynced: t.config.Informer.HasSynced}}
}

// Ensure writes the record unless it is there. It returns the namespace and name of the record when this call wrote it.
// The name has the time of the deletion, so that a repeated call finds the record of the first one.
func (t *Trail) Ensure(ctx context.Context, record Record) (written string, err error) {
	object, err := t.desired(record)
	if err != nil {
		return "", err
	}
	written, err = t.create(ctx, object)
	if !apierrors.IsAlreadyExists(err) {
		return written, err
	}
	existing, err := t.config.ConfigMaps.ConfigMaps(t.config.Namespace).Get(ctx, object.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read audit record %s/%s: %w", t.config.Namespace, object.Name, err)
	}
	if existing.Annotations[t.config.Keys.SourceUID] == string(record.UID) {
		return "", nil
	}
	// Another object that was deleted in the same second has the same name: "a-b" in "c" and "b" in "c-a", or one that
	// was created again at once.
	object.Name = hashedName(object.Name, string(record.UID), "")
	written, err = t.create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return "", nil
	}
	return written, err
}

// create writes a record, and the namespace first if that is missing.
func (t *Trail) create(ctx context.Context, record *corev1.ConfigMap) (written string, err error) {
	options := metav1.CreateOptions{FieldManager: t.config.Manager}
	configMaps := t.config.ConfigMaps.ConfigMaps(t.config.Namespace)
	created, err := configMaps.Create(ctx, record, options)
	if apierrors.IsNotFound(err) {
		if err := t.ensureNamespace(ctx); err != nil {
			return "", err
		}
		created, err = configMaps.Create(ctx, record, options)
	}
	if err != nil {
		return "", fmt.Errorf("write audit record %s/%s: %w", t.config.Namespace, record.Name, err)
	}
	return created.Namespace + "/" + created.Name, nil
}

func (t *Trail) ensureNamespace(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.config.Namespace}}
	_, err := t.config.Namespaces.Namespaces().Create(ctx, namespace, metav1.CreateOptions{FieldManager: t.config.Manager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create audit namespace %s: %w", t.config.Namespace, err)
	}
	return nil
}

// desired is the ConfigMap of a record, reduced where its source namespace has its share of whole ones.
func (t *Trail) desired(record Record) (*corev1.ConfigMap, error) {
	keys := t.config.Keys
	annotations := map[string]string{keys.SourceUID: string(record.UID)}
	reduced := t.isCrowded(record.Namespace)
	if reduced {
		annotations[keys.Detail] = reducedValue
	}
	data, err := record.data(reduced)
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   t.config.Namespace,
			Name:        recordName(record.Namespace, record.Name, record.DeletedAt),
			Annotations: annotations,
			Labels:      map[string]string{keys.SourceNamespace: record.Namespace, keys.SourceName: record.Name},
		},
		Data: data,
	}, nil
}

// isCrowded reports whether a source namespace has its share of whole records. Where it has too many records of any
// form, a sweep follows.
func (t *Trail) isCrowded(source string) bool {
	records := t.of(source)
	if len(records) >= MaxRecords {
		select {
		case t.crowded <- struct{}{}:
		default: // A sweep is due already.
		}
	}
	whole := 0
	for _, record := range records {
		if !t.isReduced(record) {
			whole++
		}
	}
	return whole >= MaxWholeRecords
}

// of are the stored records about the objects of a namespace.
func (t *Trail) of(source string) []*metav1.PartialObjectMetadata {
	found, err := t.stored.ByIndex(bySource, source)
	if err != nil {
		return nil
	}
	records := make([]*metav1.PartialObjectMetadata, 0, len(found))
	for _, item := range found {
		if record, ok := item.(*metav1.PartialObjectMetadata); ok {
			records = append(records, record)
		}
	}
	return records
}

func (t *Trail) isReduced(record *metav1.PartialObjectMetadata) bool {
	return record.Annotations[t.config.Keys.Detail] == reducedValue
}

// sourceOf is the index function of bySource. What others label like a record is none: it lacks the UID.
func (t *Trail) sourceOf(object any) ([]string, error) {
	record, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || record.Annotations[t.config.Keys.SourceUID] == "" || record.Labels[t.config.Keys.SourceNamespace] == "" {
		return nil, nil
	}
	return []string{record.Labels[t.config.Keys.SourceNamespace]}, nil
}

// slim keeps of a record's metadata what sweeps and counts need.
func (t *Trail) slim(object any) (any, error) {
	whole, ok := object.(*metav1.PartialObjectMetadata)
	if !ok {
		return object, nil
	}
	kept := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: whole.Namespace, Name: whole.Name, UID: whole.UID, ResourceVersion: whole.ResourceVersion,
		CreationTimestamp: whole.CreationTimestamp,
		Labels:            map[string]string{t.config.Keys.SourceNamespace: whole.Labels[t.config.Keys.SourceNamespace]},
		Annotations:       map[string]string{},
	}}
	for _, key := range []string{t.config.Keys.SourceUID, t.config.Keys.Detail} {
		if value, ok := whole.Annotations[key]; ok {
			kept.Annotations[key] = value
		}
	}
	return kept, nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/message"
	"github.com/example/demoapp-controller/pkg/metacache"
)

// Name is the name of the sweep controller in logs.
const Name = "audit"

// Limits of the records of one source namespace.
const (
	// MaxWholeRecords bounds the records with contents. Further records hold digests only.
	MaxWholeRecords = 100
	// MaxRecords bounds all records. Records beyond it are removed.
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

// Config configures a [Trail].
type Config struct {
	// Namespace receives the records. It is created if missing.
	Namespace string
	// Manager is the field manager of the records.
	Manager string
	Keys    Keys
	// Retention is the age at which records are removed. If it is 0, records do not expire.
	Retention time.Duration

	ConfigMaps corev1client.ConfigMapsGetter
	Namespaces corev1client.NamespacesGetter
	// Informer is made by [NewInformer]. It must not be shared, and must not have been started.
	Informer cache.SharedIndexInformer
	// OnWatchError, if it is not nil, is called for each error of a list or watch of the informer.
	// New replaces the watch error handler of the informer.
	OnWatchError func(error)
	Clock        clock.Clock
}

// Trail writes, counts and removes the records. It is safe for concurrent use.
type Trail struct {
	config Config
	stored cache.Indexer
	// sweepDue has an element if a source namespace has reached MaxRecords.
	sweepDue chan struct{}

	mu sync.Mutex
	// refusal is the answer to the first list of the informer, if the operator may not watch the
	// records.
	refusal error
}

// New returns a trail. It neither starts nor stops the informer of config.
func New(config Config) (*Trail, error) {
	t := &Trail{config: config, stored: config.Informer.GetIndexer(), sweepDue: make(chan struct{}, 1)}
	err := errors.Join(
		config.Informer.AddIndexers(cache.Indexers{bySource: t.sourceOf}),
		config.Informer.SetWatchErrorHandlerWithContext(t.watchFailed),
	)
	if err != nil {
		return nil, fmt.Errorf("watch audit records: %w", err)
	}
	return t, nil
}

// NewInformer returns the informer of the records in a namespace.
func NewInformer(client metadata.Interface, namespace string, keys Keys) (cache.SharedIndexInformer, error) {
	return metacache.NewInformer(nil, client, corev1.SchemeGroupVersion.WithResource("configmaps"), namespace,
		func(options *metav1.ListOptions) { options.LabelSelector = keys.SourceNamespace }, keys.slim)
}

// Namespace returns the namespace of the records.
func (t *Trail) Namespace() string { return t.config.Namespace }

// Synced returns the cache in which records are counted. If the operator may not watch the records,
// nothing waits for the cache: Ensure fails instead.
func (t *Trail) Synced() []controller.NamedSync {
	return []controller.NamedSync{{Name: "audit records", HasSynced: func() bool {
		return t.config.Informer.HasSynced() || t.refused() != nil
	}}}
}

// refused returns the error of the first list if the operator may not watch the records.
func (t *Trail) refused() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.config.Informer.HasSynced() {
		return nil
	}
	return t.refusal
}

// watchFailed handles the errors of the informer. The log has one line about missing permissions.
func (t *Trail) watchFailed(ctx context.Context, reflector *cache.Reflector, err error) {
	if t.config.OnWatchError != nil {
		t.config.OnWatchError(err)
	}
	if !apierrors.IsForbidden(err) {
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
		return
	}
	var answer *apierrors.StatusError
	if errors.As(err, &answer) {
		err = answer // Drop the text that client-go adds.
	}
	t.mu.Lock()
	first := t.refusal == nil
	t.refusal = err
	t.mu.Unlock()
	if first {
		klog.FromContext(ctx).Info("Audit records cannot be watched; deletions that need a record wait", "namespace", t.config.Namespace, "err", err)
	}
}

// remedy says what to do if the operator may not use the namespace of the records.
func (t *Trail) remedy() string {
	return fmt.Sprintf("create the namespace %s and grant get, list, watch, create, patch and delete of ConfigMaps there", t.config.Namespace)
}

// Ensure writes the record unless it exists. It returns the namespace and name of the record if
// this call wrote it. The name contains the time of the deletion, so a repeated call finds the
// record of the first call.
func (t *Trail) Ensure(ctx context.Context, record Record) (written string, err error) {
	if refusal := t.refused(); refusal != nil {
		return "", fmt.Errorf("watch audit records: %w: %s", refusal, t.remedy())
	}
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
	// Two objects that were deleted in the same second can have the same record name: "a-b" in "c"
	// and "b" in "c-a", or an object that was created again under its name.
	object.Name = hashedName(object.Name, string(record.UID), "")
	written, err = t.create(ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return "", nil
	}
	return written, err
}

// Amend adds an entry to the record of a deleted object, which [Trail.Ensure] has written. An entry of
// more than maxAmendment bytes is cut.
func (t *Trail) Amend(ctx context.Context, record Record, key, text string) error {
	configMaps := t.config.ConfigMaps.ConfigMaps(t.config.Namespace)
	name := recordName(record.Namespace, record.Name, record.DeletedAt)
	for _, name := range []string{name, hashedName(name, string(record.UID), "")} {
		existing, err := configMaps.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read audit record %s/%s: %w", t.config.Namespace, name, err)
		}
		if existing.Annotations[t.config.Keys.SourceUID] != string(record.UID) {
			continue
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": existing.UID}, "data": map[string]string{key: message.Truncate(text, maxAmendment)},
		})
		if err != nil {
			return err
		}
		if _, err := configMaps.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: t.config.Manager}); err != nil {
			return fmt.Errorf("amend audit record %s/%s: %w", t.config.Namespace, name, err)
		}
		return nil
	}
	return nil // A sweep has removed the record.
}

// create writes a record. If the namespace is missing, create creates it first.
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
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("create audit namespace %s: %w: %s", t.config.Namespace, err, t.remedy())
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create audit namespace %s: %w", t.config.Namespace, err)
	}
	return nil
}

// desired returns the ConfigMap of a record. The record is reduced if its source namespace has
// MaxWholeRecords.
func (t *Trail) desired(record Record) (*corev1.ConfigMap, error) {
	keys := t.config.Keys
	annotations := map[string]string{keys.SourceUID: string(record.UID)}
	reduced := t.mustReduce(record.Namespace)
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

// mustReduce reports whether a source namespace has MaxWholeRecords. If the namespace has
// MaxRecords, mustReduce also starts a sweep.
func (t *Trail) mustReduce(source string) bool {
	records := t.of(source)
	if len(records) >= MaxRecords {
		select {
		case t.sweepDue <- struct{}{}:
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

// of returns the cached records of a source namespace.
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

// sourceOf is the index function of bySource. It ignores foreign ConfigMaps that have the labels of
// a record, but no UID annotation.
func (t *Trail) sourceOf(object any) ([]string, error) {
	record, ok := object.(*metav1.PartialObjectMetadata)
	if !ok || record.Annotations[t.config.Keys.SourceUID] == "" || record.Labels[t.config.Keys.SourceNamespace] == "" {
		return nil, nil
	}
	return []string{record.Labels[t.config.Keys.SourceNamespace]}, nil
}

// slim drops the metadata that sweeps and counts do not need.
func (k Keys) slim(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	kept := metacache.Identity(whole)
	kept.CreationTimestamp = whole.CreationTimestamp
	kept.Labels = map[string]string{k.SourceNamespace: whole.Labels[k.SourceNamespace]}
	kept.Annotations = map[string]string{}
	for _, key := range []string{k.SourceUID, k.Detail} {
		if value, ok := whole.Annotations[key]; ok {
			kept.Annotations[key] = value
		}
	}
	return kept
}

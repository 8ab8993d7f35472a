// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v4/pkg/release/common"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/metacache"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/shardcache"
)

// InputsLabel is the label on a release record with the inputs that the engine made the revision
// from: "<revision>-<digest>-<beginning of the chart's digest>". Helm copies the labels of a
// release to the next revision, no matter which client makes it. So the label counts only if its
// revision equals the revision of the record. A failed attempt has "-x" at the end, because Helm
// may later change its status to superseded, as for a deployed revision.
const InputsLabel = "engine.demo.example.com/inputs"

// RollbackLabel is the label on the record of a rollback that this engine made:
// "<revision>-<revision rolled back to>-<digest of the inputs given up>".
const RollbackLabel = "engine.demo.example.com/rollback"

// UnhealthyLabel is the label on the record of a revision that was deployed and then marked
// as failed by the engine's MarkFailed. Its value is the revision, because Helm copies labels
// to the next revision.
const UnhealthyLabel = "engine.demo.example.com/unhealthy"

// AdoptLabel on the newest record of a release, with the value "true", allows the adoption of the
// release. Only clients that may write Secrets can set it.
const AdoptLabel = "engine.demo.example.com/adopt"

// FailedMark ends the InputsLabel of a failed attempt.
const FailedMark = "-x"

// Helm's labels of a record, and the selector of records.
const (
	selector        = "owner=helm"
	StatusLabel     = "status"
	versionLabel    = "version"
	NameLabel       = "name"
	ModifiedAtLabel = "modifiedAt"
	byRelease       = "release"
)

// SelectorOf returns the label selector of the records of a release. It misses a record whose labels
// were changed.
func SelectorOf(release string) string { return selector + "," + NameLabel + "=" + release }

var secretResource = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

// Record is a revision without its content, as the index shows it.
type Record struct {
	Revision int
	// Status is Helm's status: deployed, failed, pending-upgrade, ...
	Status string
	// Own means that this engine made the revision. Inputs is the digest of its inputs. A rollback
	// has the inputs of the revision that it restored.
	Own    bool
	Inputs string
	// ChartDigest is the beginning of the chart's digest, see [Record.MadeFrom]; empty
	// when it is not known.
	ChartDigest string
	// Failed says that the engine's attempt failed, whatever the status is now.
	Failed bool
	// Unhealthy says that the revision was deployed and then marked as failed by
	// the engine's MarkFailed.
	Unhealthy bool
	// RolledBackTo is the revision whose manifest this rollback restored, and Abandoned
	// the digest of the inputs that were given up. Both are zero unless the revision is a
	// rollback that this engine made.
	RolledBackTo int
	Abandoned    string
	// Owner is the owner that the record names, or zero.
	Owner Owner
	// Adoptable says that the record has the [AdoptLabel].
	Adoptable bool
	// Changed is the time of the last write.
	Changed time.Time

	// Secret is the metadata of the record's Secret.
	Secret *metav1.PartialObjectMetadata
	// Controller is the owner that the record's controller reference names.
	Controller Owner
}

// MadeFrom reports whether the engine made the revision from the chart. It compares the
// files, not the version.
func (r *Record) MadeFrom(chart *chart.Chart) bool {
	return r.Own && r.ChartDigest == chart.ShortDigest()
}

// OwnerUID returns the UID of the owner in the labels or else in the controller reference of the
// record. It is empty if the record names no owner.
func (r *Record) OwnerUID() types.UID { return cmp.Or(r.Owner.UID, r.Controller.UID) }

// Settles reports whether the revision has the inputs, or the inputs were given up for it.
func (r *Record) Settles(inputs string) bool {
	return r.Inputs == inputs || r.RolledBackTo != 0 && r.Abandoned == inputs
}

// Unfinished reports whether the revision is an attempt that did not succeed.
func (r *Record) Unfinished() bool {
	status := common.Status(r.Status)
	return status == common.StatusFailed || status.IsPending()
}

// Good reports whether the revision was deployed with success.
func (r *Record) Good() bool {
	status := common.Status(r.Status)
	return !r.Failed && (status == common.StatusDeployed || status == common.StatusSuperseded)
}

// Applied reports whether the revision was applied as a whole.
func (r *Record) Applied() bool {
	return r.Unhealthy || common.Status(r.Status) == common.StatusDeployed
}

// IsUnhealthy reports whether the labels belong to a revision that MarkFailed marked.
func IsUnhealthy(labels map[string]string, revision int) bool {
	return labels[UnhealthyLabel] == strconv.Itoa(revision)
}

// LastGood returns the revision to roll back to: the newest good revision before the newest record
// that was not rolled back from and can be verified. It returns nil if there is no such revision.
// The history is sorted, oldest first.
func LastGood(history []*Record, verified []Digest) *Record {
	givenUp := 0
	for i := len(history) - 1; i >= 0; i-- {
		record := history[i]
		if i < len(history)-1 && record.Revision != givenUp && record.Good() && DigestFor(verified, record.Revision) != "" {
			return record
		}
		if givenUp = 0; record.RolledBackTo != 0 {
			givenUp = record.Revision - 1
		}
	}
	return nil
}

// Deployed returns the record of a baseline's revision: the newest revision, or an older
// revision that is still deployed because all later attempts of the engine failed or were
// interrupted. It returns nil for any other revision, and if the record cannot be verified. The
// history is sorted, oldest first.
func Deployed(history []*Record, revision int, verified []Digest) *Record {
	if DigestFor(verified, revision) == "" {
		return nil
	}
	for i, record := range slices.Backward(history) {
		switch newest := i == len(history)-1; {
		case record.Revision == revision && (newest || record.Good() || record.Unhealthy):
			return record
		case record.Revision <= revision, !record.Own, !record.Unfinished(), record.Unhealthy:
			return nil
		}
	}
	return nil
}

// InputsValue returns the value of InputsLabel. The inputs are empty for a revision that another
// client made.
func InputsValue(revision int, inputs, chart string) string {
	return labelOf(strconv.Itoa(revision), inputs, chart)
}

// RollbackValue returns the value of RollbackLabel.
func RollbackValue(revision, to int, abandoned string) string {
	return labelOf(strconv.Itoa(revision), strconv.Itoa(to), abandoned)
}

// labelOf joins the parts of a label's value. It drops empty parts at the end, because a
// value cannot end in a dash.
func labelOf(parts ...string) string { return strings.TrimRight(strings.Join(parts, "-"), "-") }

// SplitInputs returns the parts of a value of InputsLabel.
func SplitInputs(label string) (revision, inputs, chart string) {
	revision, inputs, _ = strings.Cut(strings.TrimSuffix(label, FailedMark), "-")
	inputs, chart, _ = strings.Cut(inputs, "-")
	return revision, inputs, chart
}

// Of returns the record of a Secret, from its name and labels. It returns nil if the name is
// not the name of a release record.
func Of(secret *metav1.PartialObjectMetadata) *Record {
	_, revision := identity(secret.Name)
	if revision == 0 {
		return nil
	}
	record := &Record{
		Revision:  revision,
		Status:    secret.Labels[StatusLabel],
		Owner:     recordedOwner(secret.Labels),
		Adoptable: secret.Labels[AdoptLabel] == "true",
		Changed:   changedAt(secret),
		Secret:    secret,

		Controller: OwnerOf(metav1.GetControllerOfNoCopy(secret)),
	}
	made, inputs, chart := SplitInputs(secret.Labels[InputsLabel])
	if made != strconv.Itoa(revision) {
		return record
	}
	record.Own, record.Failed = true, strings.HasSuffix(secret.Labels[InputsLabel], FailedMark)
	record.Unhealthy = record.Failed && common.Status(record.Status) == common.StatusFailed && IsUnhealthy(secret.Labels, revision)
	record.Inputs, record.ChartDigest = inputs, chart
	made, to, _ := strings.Cut(secret.Labels[RollbackLabel], "-")
	if made == strconv.Itoa(revision) {
		to, abandoned, _ := strings.Cut(to, "-")
		if older, err := strconv.Atoi(to); err == nil {
			record.RolledBackTo, record.Abandoned = older, abandoned
		}
	}
	return record
}

// changedAt returns the time of Helm's last write, which is in a label in Unix seconds.
func changedAt(secret *metav1.PartialObjectMetadata) time.Time {
	seconds, err := strconv.ParseInt(secret.Labels[ModifiedAtLabel], 10, 64)
	if err != nil {
		return secret.CreationTimestamp.Time
	}
	return time.Unix(seconds, 0)
}

// Index is an index of the release records in the watched namespaces. It has only their metadata.
type Index struct {
	views     overlay.Views[*metav1.PartialObjectMetadata]
	informers []cache.SharedIndexInformer
	synced    []cache.InformerSynced
	notify    func(release cache.ObjectName, secret metav1.Object, gone bool)
}

// NewIndex returns an index of the release records in the namespaces; none for all namespaces. It
// has the records of the selected shards. notify is called for each change that is not an echo of a
// write of this process. It must not block.
func NewIndex(
	shards *shardcache.Selection, client metadata.Interface, namespaces []string, watchErrors cache.WatchErrorHandlerWithContext,
	notify func(release cache.ObjectName, secret metav1.Object, gone bool),
) (*Index, error) {
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	r := &Index{views: overlay.Views[*metav1.PartialObjectMetadata]{}, notify: notify}
	for _, namespace := range namespaces {
		informer, failed := newInformer(shards, client, namespace)
		view := overlay.New[*metav1.PartialObjectMetadata](informer.GetIndexer())
		registration, err := cache.NewTypedSharedIndexInformer[*metav1.PartialObjectMetadata](informer).AddTypedEventHandler(r.handler(view))
		if err := errors.Join(failed, err, informer.SetWatchErrorHandlerWithContext(watchErrors)); err != nil {
			return nil, fmt.Errorf("watch release records: %w", err)
		}
		r.views[namespace] = view
		r.informers = append(r.informers, informer)
		r.synced = append(r.synced, registration.HasSynced)
	}
	return r, nil
}

func newInformer(shards *shardcache.Selection, client metadata.Interface, namespace string) (cache.SharedIndexInformer, error) {
	informer, err := metacache.NewInformer(shards, client, secretResource, namespace,
		func(options *metav1.ListOptions) { options.LabelSelector = selector },
		func(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
			return Slim(&whole.ObjectMeta)
		})
	return informer, errors.Join(err, informer.AddIndexers(cache.Indexers{byRelease: func(object any) ([]string, error) {
		return []string{keyOf(object.(*metav1.PartialObjectMetadata)).String()}, nil
	}}))
}

// indexedLabels are the labels that the index keeps. Secrets may have any number of further labels.
var indexedLabels = append(driver.GetSystemLabels(),
	InputsLabel, RollbackLabel, UnhealthyLabel, OwnerLabel, OwnerKindLabel, OwnerGenerationLabel, SaltLabel, AdoptLabel)

// Slim returns the metadata of a record with the labels that the index needs.
func Slim(secret *metav1.ObjectMeta) *metav1.PartialObjectMetadata {
	labels := map[string]string{}
	for _, key := range indexedLabels {
		if value, ok := secret.Labels[key]; ok {
			labels[key] = value
		}
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace:         secret.Namespace,
		Name:              secret.Name,
		UID:               secret.UID,
		ResourceVersion:   secret.ResourceVersion,
		CreationTimestamp: secret.CreationTimestamp,
		DeletionTimestamp: secret.DeletionTimestamp,
		Labels:            labels,
		OwnerReferences:   controllerReference(secret),
	}}
}

// maxReferenceText exceeds the maximum length of any text in an owner reference.
const maxReferenceText = 320

// controllerReference returns the controller reference of a record whose labels name no owner, or
// nil. A text that is longer than any valid text is truncated, and then matches no object.
func controllerReference(secret *metav1.ObjectMeta) []metav1.OwnerReference {
	controller := metav1.GetControllerOf(secret)
	if controller == nil || secret.Labels[OwnerLabel] != "" {
		return nil
	}
	cut := func(text string) string { return strings.Clone(text[:min(len(text), maxReferenceText)]) }
	return []metav1.OwnerReference{{
		APIVersion: cut(controller.APIVersion), Kind: cut(controller.Kind), Name: cut(controller.Name),
		UID: types.UID(cut(string(controller.UID))), Controller: controller.Controller,
	}}
}

// Run watches until ctx ends, and returns when the watches have ended.
func (r *Index) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, informer := range r.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Wait()
}

// HasSynced reports whether the index has all records of the first list.
func (r *Index) HasSynced() bool {
	for _, synced := range r.synced {
		if !synced() {
			return false
		}
	}
	return true
}

// View returns the view of the records in a namespace; nil when the namespace is not watched.
func (r *Index) View(namespace string) *overlay.View[*metav1.PartialObjectMetadata] {
	return r.views.In(namespace)
}

// History returns the records of a release, oldest first. It leaves out deleted records that
// finalizers hold.
func (r *Index) History(release cache.ObjectName) []*Record {
	secrets := r.views.In(release.Namespace).List(byRelease, release.String(), func(secret *metav1.PartialObjectMetadata) bool {
		return keyOf(secret) == release
	})
	history := make([]*Record, 0, len(secrets))
	for _, secret := range secrets {
		if record := Of(secret); record != nil && secret.DeletionTimestamp == nil {
			history = append(history, record)
		}
	}
	slices.SortFunc(history, func(a, b *Record) int { return a.Revision - b.Revision })
	return history
}

// Latest returns the newest record of a release; nil without records.
func (r *Index) Latest(release cache.ObjectName) *Record {
	history := r.History(release)
	if len(history) == 0 {
		return nil
	}
	return history[len(history)-1]
}

// MaxRevision is the highest revision of a record. It leaves room for the next one.
const MaxRevision = 1_000_000_000

// identity returns the release and revision of the record in the named Secret, or zero values
// for another name. The name is used because, unlike Helm's labels, it cannot be changed.
func identity(secret string) (release string, revision int) {
	name, ok := strings.CutPrefix(secret, storage.HelmStorageType+".")
	at := strings.LastIndex(name, ".v")
	if !ok || at < 1 {
		return "", 0
	}
	revision, err := strconv.Atoi(name[at+2:])
	if err != nil || revision < 1 || revision > MaxRevision || SecretName(name[:at], revision) != secret {
		return "", 0
	}
	return name[:at], revision
}

func keyOf(secret *metav1.PartialObjectMetadata) cache.ObjectName {
	release, _ := identity(secret.Name)
	return cache.ObjectName{Namespace: secret.Namespace, Name: release}
}

// SecretName returns the name that Helm gives to the Secret of a revision.
func SecretName(release string, revision int) string {
	return fmt.Sprintf("%s.%s.v%d", storage.HelmStorageType, release, revision)
}

// handler reports changes of records that this process did not make.
func (r *Index) handler(view *overlay.View[*metav1.PartialObjectMetadata]) overlay.Handler[*metav1.PartialObjectMetadata] {
	changed := func(secret *metav1.PartialObjectMetadata, gone bool) {
		r.notify(keyOf(secret), secret, gone)
	}
	return overlay.Handler[*metav1.PartialObjectMetadata]{
		View:    view,
		Added:   func(secret, _ *metav1.PartialObjectMetadata) { changed(secret, false) },
		Updated: func(_, secret *metav1.PartialObjectMetadata) { changed(secret, false) },
		Deleted: func(secret *metav1.PartialObjectMetadata, own bool) {
			if !own {
				changed(secret, true)
			}
		},
	}
}

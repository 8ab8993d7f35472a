// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// HistoryLine is one action on a release: a revision, or an action without one, such as a repair.
type HistoryLine struct {
	// Revision is 0 for a failed action that recorded no revision.
	Revision int64     `json:"revision,omitempty"`
	Time     time.Time `json:"time"`
	// Action and Outcome come from status.history. For a revision that status.history no longer
	// has, Action is empty and Outcome is Helm's status, such as superseded.
	Action  string `json:"action,omitempty"`
	Outcome string `json:"outcome"`
	// Reason is why the operator acted. For a revision of another client, it is Helm's description.
	Reason string `json:"reason,omitempty"`
	Chart  string `json:"chart,omitempty"`
	// By is the field manager that wrote the spec which the revision deployed, as far as it is
	// known. For a revision that the operator did not make, it is the client that made it.
	By string `json:"by,omitempty"`
	// Generation is the generation of the spec; 0 if it is not known.
	Generation int64 `json:"generation,omitempty"`
	// Changed names the differences from the revision before, without values.
	Changed []string `json:"changed,omitempty"`
}

// History is the history of a release.
type History struct {
	// Lines are sorted, the newest first.
	Lines []HistoryLine
	// Err is why the records could not be read. Lines then has only the content of the status.
	Err error
}

// HistoryOf reads the history of an object's release from its status and from the records.
func (c *Cluster) HistoryOf(ctx context.Context, object *unstructured.Unstructured) History {
	records, err := c.Recorded(ctx, object)
	return History{Lines: historyLines(object, records), Err: err}
}

// Recorded reads the revisions of an object's release, sorted, the oldest first. A release that the
// object has taken over keeps the revisions of former owners. Revisions of a release that belongs
// to another owner are left out. It needs the permission to list Secrets.
func (c *Cluster) Recorded(ctx context.Context, object *unstructured.Unstructured) ([]*helm.Recorded, error) {
	located, err := c.locate(ctx, object, object.GetNamespace(), releaseNames(object))
	if err != nil {
		return nil, err
	}
	secrets := located.records
	found := make([]*helm.Recorded, 0, len(secrets))
	for i := range secrets {
		recorded, err := helm.ReadRecorded(&secrets[i])
		if err != nil {
			return nil, err
		}
		recorded.Secret.ManagedFields = secrets[i].ManagedFields
		found = append(found, recorded)
	}
	slices.SortFunc(found, func(a, b *helm.Recorded) int { return cmp.Compare(a.Revision, b.Revision) })
	isOther := func(recorded *helm.Recorded) bool {
		return recorded.OwnerUID() != "" && recorded.OwnerUID() != object.GetUID()
	}
	if len(found) > 0 && isOther(found[len(found)-1]) {
		found = slices.DeleteFunc(found, isOther)
	}
	return found, nil
}

// revisionOf returns a recorded revision; the newest deployed one for 0.
func revisionOf(records []*helm.Recorded, number int) (*helm.Recorded, error) {
	var numbers []string
	for _, record := range slices.Backward(records) {
		if record.Revision == number || number == 0 && record.Applied() {
			return record, nil
		}
		numbers = append(numbers, strconv.Itoa(record.Revision))
	}
	switch {
	case len(numbers) == 0:
		return nil, fmt.Errorf("the release has no recorded revision")
	case number == 0:
		return nil, fmt.Errorf("no revision of the release is deployed")
	default:
		return nil, fmt.Errorf("revision %d has no record; the recorded revisions are %s", number, strings.Join(numbers, ", "))
	}
}

// verified fails if the operator has written another manifest, other hooks or another version of
// the chart into a record than the record has now. Every client that may edit Secrets can change a
// record. A revision of which the operator has reported no digest is not checked.
func verified(owner *unstructured.Unstructured, records ...*helm.Recorded) error {
	digests := release.Baseline(StatusOf(owner).Release, releasev1alpha1.ReleasePolicy{}, helm.ScopeNamespace).Revisions
	for _, recorded := range records {
		for _, known := range digests {
			if known.Revision == recorded.Revision && !recorded.Matches(known.Digest) {
				return fmt.Errorf("revision %d: its record, Secret %s, was changed by another client than the operator; "+
					"kubectl demoapp retry lets the operator write a new revision", recorded.Revision, recorded.Secret.Name)
			}
		}
	}
	return nil
}

// historyLines joins the status and the records of a release.
func historyLines(object *unstructured.Unstructured, records []*helm.Recorded) []HistoryLine {
	status := StatusOf(object).Release
	var lines []HistoryLine

	chart := ""
	if status.DeployedRelease != nil {
		chart = status.DeployedRelease.Chart
	}
	for _, entry := range status.History {
		line := HistoryLine{
			Revision: entry.Revision, Time: entry.Time.Time, Action: string(entry.Action), Outcome: string(entry.Outcome),
			Reason: string(entry.Reason), Generation: entry.Generation, Changed: changedOf(entry),
		}
		if entry.ChartVersion != "" && chart != "" {
			line.Chart = chart + "@" + entry.ChartVersion
		}
		lines = append(lines, line)
	}
	for _, record := range records {
		revision := int64(record.Revision)
		at := slices.IndexFunc(lines, func(line HistoryLine) bool {
			return line.Revision == revision && line.Action != string(releasev1alpha1.HistoryRepair)
		})
		if at < 0 {
			lines = append(lines, HistoryLine{Revision: revision, Time: record.Deployed, Outcome: record.Status})
			at = len(lines) - 1
			if record.OwnerUID() == object.GetUID() {
				lines[at].Generation = record.Owner.Generation
			}
			if !record.Own {
				lines[at].Reason = record.Description
			}
		}
		lines[at].Chart = record.Chart + "@" + record.ChartVersion
		if !record.Own {
			lines[at].By = managerOf(record.Secret.ManagedFields)
		}
	}
	slices.SortStableFunc(lines, func(a, b HistoryLine) int {
		return cmp.Or(b.Time.Truncate(time.Second).Compare(a.Time.Truncate(time.Second)), cmp.Compare(b.Revision, a.Revision))
	})
	noteAuthors(lines, object.GetManagedFields())
	return lines
}

// changedOf returns the changes of an entry with the number of those that it does not name.
func changedOf(entry releasev1alpha1.HistoryEntry) []string {
	if entry.ChangedMore == 0 {
		return entry.Changed
	}
	return append(slices.Clone(entry.Changed), fmt.Sprintf("%d more", entry.ChangedMore))
}

// managerOf returns the field manager that wrote a record last.
func managerOf(fields []metav1.ManagedFieldsEntry) string {
	last := metav1.ManagedFieldsEntry{Manager: "another client"}
	for _, entry := range fields {
		if last.Time == nil || entry.Time != nil && last.Time.Before(entry.Time) {
			last = entry
		}
	}
	return last.Manager
}

// noteAuthors says for each revision which field manager wrote the spec. A manager has one entry in
// managedFields, with the time of its last write, so the entry belongs to the first revision after
// that time.
func noteAuthors(lines []HistoryLine, fields []metav1.ManagedFieldsEntry) {
	// The last write before a revision comes first.
	fields = slices.SortedStableFunc(slices.Values(fields), func(a, b metav1.ManagedFieldsEntry) int { return timeOf(b).Compare(timeOf(a)) })
	for _, entry := range fields {
		if entry.Time == nil || entry.Subresource != "" || entry.FieldsV1 == nil || !strings.Contains(entry.FieldsV1.GetRawString(), `"f:spec"`) {
			continue
		}
		for i := range slices.Backward(lines) {
			line := &lines[i]
			isRevision := line.Revision > 0 && line.Action != string(releasev1alpha1.HistoryRepair)
			if !isRevision || line.Time.Before(entry.Time.Time) {
				continue
			}
			if line.By == "" {
				line.By = entry.Manager
			}
			break
		}
	}
}

// timeOf returns the time of the last write of a field manager.
func timeOf(entry metav1.ManagedFieldsEntry) time.Time {
	if entry.Time == nil {
		return time.Time{}
	}
	return entry.Time.Time
}

// Compared is a comparison of two revisions.
type Compared struct {
	// Values is the difference of the values, and Objects the difference of the manifests.
	Values  Difference
	Objects []Difference
}

// CompareRevisions compares the values and the manifests of two recorded revisions of an object's
// release. A revision of 0 is the deployed one.
func (d Differ) CompareRevisions(ctx context.Context, object *unstructured.Unstructured, from, to int) (*Compared, error) {
	records, err := d.Recorded(ctx, object)
	if err != nil {
		return nil, err
	}
	before, err := revisionOf(records, from)
	if err != nil {
		return nil, err
	}
	after, err := revisionOf(records, to)
	if err != nil {
		return nil, err
	}
	if err := verified(object, before, after); err != nil {
		return nil, err
	}
	return compareRevisions(before, after, d.masking(ctx, object, before, after))
}

func compareRevisions(before, after *helm.Recorded, mask Mask) (*Compared, error) {
	old, err := before.Objects()
	if err != nil {
		return nil, err
	}
	next, err := after.Objects()
	if err != nil {
		return nil, err
	}
	mask = mask.withSecretsOf(old).withSecretsOf(next)
	found := &Compared{Values: mask.compareValues(before.Values, after.Values)}
	byReference := map[Reference]*unstructured.Unstructured{}
	for _, object := range old {
		byReference[ReferenceOf(object)] = object
	}
	for _, object := range next {
		reference := ReferenceOf(object)
		found.Objects = append(found.Objects, mask.compare(reference, byReference[reference], object))
		delete(byReference, reference)
	}
	for _, object := range old {
		if reference := ReferenceOf(object); byReference[reference] != nil {
			found.Objects = append(found.Objects, mask.compare(reference, object, nil))
		}
	}
	found.Objects = slices.DeleteFunc(found.Objects, func(d Difference) bool { return !d.Differs() })
	return found, nil
}

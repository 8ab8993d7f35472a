// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ssa

import (
	"hash/maphash"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Trace summarizes a version of an object, to detect that a client changed fields of a manager. It
// has a fixed size.
type Trace struct {
	// Fingerprint is the fingerprint of the manager.
	Fingerprint string
	// content changes with the fields that a manager may own. If the kind has a generation, it
	// changes with everything except the status. Otherwise, it changes with each version.
	content uint64
	// others changes with the entries of all other managers.
	others uint64
	// isPast means that another manager wrote after the second of the manager's last apply.
	isPast bool
	// isDeleted means that the object is being deleted.
	isDeleted bool

	// Writer identifies the other manager that last wrote the object since the manager's last apply,
	// apart from its status. It is 0 without such a manager. It is valid only in this process.
	Writer uint64
}

// TraceOf returns the trace of a version of an object.
func TraceOf(object metav1.Object, managed []metav1.ManagedFieldsEntry, manager string) Trace {
	trace := Trace{
		Fingerprint: Fingerprint(managed, manager), content: contentOf(object), isDeleted: object.GetDeletionTimestamp() != nil,
	}
	own := ownedBy(managed, manager)
	for i := range managed {
		entry := &managed[i]
		if isApply(entry, manager) {
			continue
		}
		trace.others += hashOf(entry.Manager, string(entry.Operation), entry.Subresource, fieldsOf(entry), timeOf(entry))
		if own != nil && own.Time != nil && entry.Time != nil && entry.Time.Unix() > own.Time.Unix() {
			trace.isPast = true
		}
	}
	if writer := lastWriter(managed, manager); writer != "" {
		trace.Writer = hashOf(writer)
	}
	return trace
}

// lastWriter returns the other manager that last wrote an object since the manager's last apply,
// apart from its status; "" without such a manager. Of several managers in one second, the last
// name counts.
func lastWriter(managed []metav1.ManagedFieldsEntry, manager string) string {
	writer, since := "", int64(0)
	if own := ownedBy(managed, manager); own != nil && own.Time != nil {
		since = own.Time.Unix()
	}
	for i := range managed {
		entry := &managed[i]
		if entry.Manager == manager || entry.Subresource == "status" || entry.Time == nil || entry.Time.Unix() < since {
			continue
		}
		if at := entry.Time.Unix(); at > since || entry.Manager > writer {
			writer, since = entry.Manager, at
		}
	}
	return writer
}

// MayHide reports whether the change to a later version may include a change of the manager's
// fields that the fingerprints do not show.
//
// The times in managedFields are full seconds. So the fingerprint stays equal if another client
// applies under the manager's name within the second of the manager's last apply. Such a change
// does not change the entries of other managers. A change of these entries therefore rules it out,
// and so does a write of another manager in a later second.
func (t Trace) MayHide(later Trace) bool {
	return t.Fingerprint != "" && t.Fingerprint == later.Fingerprint && t.content != later.content && t.others == later.others &&
		!later.isPast && !later.isDeleted
}

// rolloutPrefix begins the annotations in which the Deployment controller counts revisions. The
// controller may write them twice within the second of an apply, which its entry in managedFields
// does not show. Every fifth upgrade right after an install was taken for drift.
const rolloutPrefix = "deployment.kubernetes.io/"

// contentOf identifies the content of an object.
func contentOf(object metav1.Object) uint64 {
	if object.GetGeneration() == 0 {
		return hashOf(object.GetResourceVersion())
	}
	content := hashOf(strconv.FormatInt(object.GetGeneration(), 10))
	for key, value := range object.GetLabels() {
		content += hashOf("label", key, value)
	}
	for key, value := range object.GetAnnotations() {
		if !strings.HasPrefix(key, rolloutPrefix) {
			content += hashOf("annotation", key, value)
		}
	}
	for _, owner := range object.GetOwnerReferences() {
		content += hashOf("owner", string(owner.UID), owner.Name)
	}
	return content
}

func fieldsOf(entry *metav1.ManagedFieldsEntry) string {
	if entry.FieldsV1 == nil {
		return ""
	}
	return string(entry.FieldsV1.GetRawBytes())
}

func timeOf(entry *metav1.ManagedFieldsEntry) string {
	if entry.Time == nil {
		return ""
	}
	return strconv.FormatInt(entry.Time.Unix(), 10)
}

// seed prevents clients from constructing texts with equal hashes.
var seed = maphash.MakeSeed()

func hashOf(parts ...string) uint64 {
	var hash maphash.Hash
	hash.SetSeed(seed)
	for _, part := range parts {
		maphash.WriteComparable(&hash, len(part))
		_, _ = hash.WriteString(part) // A hash accepts any text.
	}
	return hash.Sum64()
}

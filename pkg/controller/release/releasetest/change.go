// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package releasetest

import (
	"slices"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Edit changes a field of the object of a kind.
func Edit(kind string) func(*Release) { return ChangeField(kind, "/edited") }

// Remove deletes the object of a kind.
func Remove(kind string) func(*Release) {
	return func(r *Release) { delete(r.Live, kind) }
}

// Replace deletes the object of a kind, and creates another one of its name.
func Replace(kind string) func(*Release) {
	return func(r *Release) {
		entry := r.Live[kind]
		entry.UID = "another"
		r.Live[kind] = entry
	}
}

// Uninstall removes the record and all objects, as the helm command does.
func Uninstall(r *Release) {
	r.Record = nil
	clear(r.Live)
}

// RewriteRecord replaces the newest record, as the helm command does.
func RewriteRecord(revision int, status string) func(*Release) {
	return func(r *Release) {
		r.Record = &record.Record{Revision: revision, Status: status, Changed: r.began}
	}
}

// SetHealth sets the health of the workload, which has one pod.
func SetHealth(s status.Status, message string, ready int32) func(*Release) {
	return func(r *Release) {
		r.Health = helm.Health{Status: s, Message: message, Replicas: 1, ReadyReplicas: ready, Selector: "app=a"}
	}
}

// touch changes an object as another client.
func touch(kind string, change func(*foreignChanges)) func(*Release) {
	return func(r *Release) {
		if r.foreign[kind] == nil {
			r.foreign[kind] = &foreignChanges{}
		}
		o := r.foreign[kind]
		change(o)
		o.edits++
		entry := r.Live[kind]
		entry.Digest = r.digest(o.taken)
		r.Live[kind] = entry
	}
}

// ChangeField gives a field of the chart another value.
func ChangeField(kind, field string) func(*Release) {
	return touch(kind, func(o *foreignChanges) {
		o.taken = slices.Compact(slices.Sorted(slices.Values(append(o.taken, field))))
		o.differing = append(o.differing, field)
	})
}

// RestoreField sets a field of the chart to its desired value, without a change of its owner.
func RestoreField(kind, field string) func(*Release) {
	return touch(kind, func(o *foreignChanges) {
		o.differing = slices.DeleteFunc(o.differing, func(differing string) bool { return differing == field })
	})
}

// AddField adds a field that the chart does not have.
func AddField(kind, field string) func(*Release) {
	return touch(kind, func(o *foreignChanges) { o.added = append(o.added, field) })
}

// RemoveAddedFields removes all fields that the chart does not have.
func RemoveAddedFields(kind string) func(*Release) {
	return touch(kind, func(o *foreignChanges) { o.added = nil })
}

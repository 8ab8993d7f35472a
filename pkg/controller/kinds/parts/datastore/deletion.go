// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/served"
)

// definitionGrace is the time after which discovery shows whether an owner was deleted with a CRD.
const definitionGrace = 3 * time.Second

// Deletion describes the deletion of an owner.
type Deletion struct {
	// Owner is the owner, of the kind Kind. Seen is when this process first saw its deletion: the clock of
	// the API server may differ.
	Owner metav1.Object
	Kind  schema.GroupVersionKind
	Seen  time.Time
	// Credentials is the name of the Secret.
	Credentials string
	// Used are the claims on which the owner has run. Ran says that it has created a StatefulSet.
	Used []databasev1.UsedClaim
	Ran  bool
}

// Retained is the event of an owner whose data is kept.
func Retained(why string) event.Event {
	return event.Normal(databasev1.ReasonDataRetained, "Delete",
		"Kept the PersistentVolumeClaims and the Secret with the credentials for a PostgreSQL of the same name"+why)
}

// Delete deletes the used claims of an owner, and its Secret if the operator created it, unless a CRD is
// being deleted: of the owner, or of an object that owns the owner. If wait is not 0, it is to be called
// again then.
func Delete(ctx context.Context, claims *Claims, secrets *Secrets, d Deletion, now time.Time) (done event.Event, wait time.Duration, err error) {
	if wait := d.Seen.Add(definitionGrace).Sub(now); wait > 0 {
		return event.Event{}, wait, nil
	}
	for _, kind := range d.kinds() {
		terminating, err := served.IsTerminating(claims.kube.Discovery(), kind)
		if err != nil {
			return event.Event{}, 0, err
		}
		if terminating {
			return Retained(fmt.Sprintf(", because the CRD of %s is being deleted", kind.Kind)), 0, nil
		}
	}
	kept, err := claims.Delete(ctx, cache.MetaObjectToName(d.Owner), d.Used)
	if err != nil {
		return event.Event{}, 0, err
	}
	deleted, err := secrets.Delete(ctx, d.Owner, d.Credentials, d.Ran)
	return deletedData(d.Ran || len(d.Used) > 0, deleted, kept), 0, err
}

// kinds returns the kind of the owner, and the kinds of the objects that own it. With the CRD of such an
// object, the garbage collector deletes the owner, although nobody decided on the data.
func (d Deletion) kinds() []schema.GroupVersionKind {
	kinds := []schema.GroupVersionKind{d.Kind}
	for _, reference := range d.Owner.GetOwnerReferences() {
		if kind := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// deletedData returns the event of a deletion.
func deletedData(ran, credentials bool, kept []string) event.Event {
	done := event.Normal(databasev1.ReasonDataRetained, "Delete", "Deleted no data, because no server ever ran")
	switch {
	case ran && credentials:
		done = event.Normal(databasev1.ReasonDataDeleted, "Delete", "Deleted the PersistentVolumeClaims and the Secret with the credentials")
	case ran:
		done = event.Normal(databasev1.ReasonVolumesDeleted, "Delete", "Deleted the PersistentVolumeClaims. A Secret with credentials that a user created is kept")
	case credentials:
		done.Note = "Deleted only the Secret with the credentials, because no server ever ran"
	}
	if len(kept) > 0 {
		done.Note += fmt.Sprintf("; kept the PersistentVolumeClaims on which no server ran: %s", strings.Join(kept, ", "))
	}
	return done
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
)

// replicas knows the live replicas that share the work, and the shards that they hold. All of them
// hold one Lease together, under an identity that names the number of shards: the Lease of a
// process without shards. A process with another number of shards therefore waits until the last of
// them has gone, by the rules of leader election.
//
// Each replica has an entry on the Lease, which it renews with the Lease. A replica is dead when
// its entry has not changed for the lease duration. By then it has ended its work, because it could
// not renew the Lease for the renew deadline, which is shorter.
type replicas struct {
	options  LeaderElectionOptions
	identity string
	// shards is the number of shards.
	shards int
	leases coordinationv1client.LeasesGetter
	// held returns the shards whose Leases this replica has.
	held func() []int
	// changed receives a value after each answer about the Lease. It has room for one.
	changed chan struct{}

	mu sync.Mutex
	// seen are the entries of the last answer.
	seen map[string]sighting
	// leaving is true when this replica gives back all shards.
	leaving bool
}

// replicaEntry is the report of one replica.
type replicaEntry struct {
	Renewed metav1.MicroTime `json:"renewed"`
	Shards  []int            `json:"shards,omitempty"`
	// Leaving is true when the replica gives back all shards. Another replica can take the drained
	// shards without waiting for the slowest pass of this replica.
	Leaving bool `json:"leaving,omitempty"`
}

// replicaTable is the annotation of the Lease.
type replicaTable struct {
	// Shards is the number of shards.
	Shards   int                     `json:"shards"`
	Replicas map[string]replicaEntry `json:"replicas"`
}

// sighting is an entry, and when this process has first seen it.
type sighting struct {
	replicaEntry

	at time.Time
}

func newReplicas(options LeaderElectionOptions, identity string, shards int, leases coordinationv1client.LeasesGetter) *replicas {
	return &replicas{
		options: options, identity: identity, shards: shards, leases: leases, held: func() []int { return nil },
		changed: make(chan struct{}, 1), seen: map[string]sighting{},
	}
}

// group is the identity under which all replicas with this number of shards hold the Lease.
func (r *replicas) group() string { return fmt.Sprintf("replicas with --shards=%d", r.shards) }

// live returns the shards of each live replica, this one included, and those that leaving replicas
// have yet to give back.
func (r *replicas) live() (staying map[string][]int, leaving []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	staying = map[string][]int{r.identity: nil}
	for identity, entry := range r.seen {
		switch {
		case r.hasExpired(identity, entry):
		case entry.Leaving && identity != r.identity:
			leaving = append(leaving, entry.Shards...)
		default:
			staying[identity] = entry.Shards
		}
	}
	return staying, leaving
}

// leave announces that this replica gives back all shards.
func (r *replicas) leave(ctx context.Context) {
	r.mu.Lock()
	r.leaving = true
	r.mu.Unlock()
	r.publish(ctx)
}

func (r *replicas) isLeaving() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving
}

func (r *replicas) isLive(identity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry, seen := r.seen[identity]
	return identity == r.identity || seen && !r.hasExpired(identity, entry)
}

func (r *replicas) hasExpired(identity string, entry sighting) bool {
	return identity != r.identity && time.Since(entry.at) > r.options.LeaseDuration
}

// isDead reports whether the entry of a replica has expired. A replica without an entry in the last
// answer is not dead.
func (r *replicas) isDead(identity string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry, seen := r.seen[identity]
	return seen && r.hasExpired(identity, entry)
}

// tableOf returns the table of a Lease. A table for another number of shards is empty.
func (r *replicas) tableOf(lease *coordinationv1.Lease) replicaTable {
	var table replicaTable
	text := lease.Annotations[apimeta.AnnotationReplicas]
	if json.Unmarshal([]byte(text), &table) != nil || table.Shards != r.shards || table.Replicas == nil {
		return replicaTable{Shards: r.shards, Replicas: map[string]replicaEntry{}}
	}
	return table
}

// observe records the entries of an answer.
func (r *replicas) observe(lease *coordinationv1.Lease) {
	table := r.tableOf(lease)
	r.mu.Lock()
	seen := map[string]sighting{}
	for identity, entry := range table.Replicas {
		last, known := r.seen[identity]
		if !known || !last.Renewed.Equal(&entry.Renewed) {
			last.at = time.Now()
		}
		last.replicaEntry = entry
		seen[identity] = last
	}
	r.seen = seen
	r.mu.Unlock()
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// isGone reports whether a replica is dead or has left, by the Lease as it is now.
func (r *replicas) isGone(ctx context.Context, identity string) (bool, error) {
	if r.isLive(identity) {
		return false, nil
	}
	// The replica may have come after the last answer.
	if _, err := r.Leases(r.options.ResourceNamespace).Get(ctx, r.options.ResourceName, metav1.GetOptions{}); err != nil {
		return false, err
	}
	return !r.isLive(identity), nil
}

// refresh reads the entries of all replicas. After an error, the next renewal reads them.
func (r *replicas) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.options.RetryPeriod)
	defer cancel()
	if _, err := r.Leases(r.options.ResourceNamespace).Get(ctx, r.options.ResourceName, metav1.GetOptions{}); err != nil {
		klog.FromContext(ctx).V(1).Info("Could not read the entries of the replicas", "err", err)
	}
}

// publish writes the entry of this replica before its next renewal, so that every replica learns at
// once which shards it has taken and given back. It does not renew the Lease. After an error, the
// next renewal writes the entry.
func (r *replicas) publish(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.options.RetryPeriod)
	defer cancel()
	leases := r.Leases(r.options.ResourceNamespace)
	lease, err := leases.Get(ctx, r.options.ResourceName, metav1.GetOptions{})
	if err == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == r.group() {
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err != nil {
		klog.FromContext(ctx).V(1).Info("Could not write the entry of this replica", "err", err)
	}
}

// Leases implements [coordinationv1client.LeasesGetter] for the common Lease.
func (r *replicas) Leases(namespace string) coordinationv1client.LeaseInterface {
	return groupLease{r.leases.Leases(namespace), r}
}

// groupLease is the common Lease. Each write renews the entry of this replica.
type groupLease struct {
	coordinationv1client.LeaseInterface

	*replicas
}

// Get implements [coordinationv1client.LeaseInterface].
func (g groupLease) Get(ctx context.Context, name string, options metav1.GetOptions) (*coordinationv1.Lease, error) {
	lease, err := g.LeaseInterface.Get(ctx, name, options)
	if err == nil {
		g.observe(lease)
	}
	return lease, err
}

// Create implements [coordinationv1client.LeaseInterface].
func (g groupLease) Create(ctx context.Context, lease *coordinationv1.Lease, options metav1.CreateOptions) (*coordinationv1.Lease, error) {
	created, err := g.LeaseInterface.Create(ctx, g.renewed(lease, lease.Spec), options)
	if err == nil {
		g.observe(created)
	}
	return created, err
}

// Update implements [coordinationv1client.LeaseInterface]. A conflict with another replica of the
// group is not a conflict over the Lease.
func (g groupLease) Update(ctx context.Context, lease *coordinationv1.Lease, options metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	var updated *coordinationv1.Lease
	base := lease
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		var conflict error
		if updated, conflict = g.LeaseInterface.Update(ctx, g.renewed(base, lease.Spec), options); !apierrors.IsConflict(conflict) {
			return conflict
		}
		live, err := g.Get(ctx, lease.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if holder := ptr.Deref(live.Spec.HolderIdentity, ""); holder != g.group() {
			return fmt.Errorf("%s is held by %q: %w", lease.Name, holder, errNotInGroup)
		}
		base = live
		return conflict
	})
	if err == nil {
		g.observe(updated)
	}
	return updated, err
}

// renewed returns a copy of a version of the Lease with a new spec, a renewed entry of this
// replica, and no entries of dead ones. A spec without a holder removes the entry: the replica
// leaves. The group then keeps the Lease while it has other replicas.
func (g groupLease) renewed(base *coordinationv1.Lease, spec coordinationv1.LeaseSpec) *coordinationv1.Lease {
	next, table := base.DeepCopy(), g.tableOf(base)
	maps.DeleteFunc(table.Replicas, func(identity string, _ replicaEntry) bool { return g.isDead(identity) })
	next.Spec = *spec.DeepCopy()
	if ptr.Deref(spec.HolderIdentity, "") != "" {
		table.Replicas[g.identity] = replicaEntry{Renewed: metav1.NowMicro(), Shards: g.held(), Leaving: g.isLeaving()}
	} else if delete(table.Replicas, g.identity); len(table.Replicas) > 0 {
		next.Spec.HolderIdentity = new(g.group())
		next.Spec.LeaseDurationSeconds = new(int32(g.options.LeaseDuration / time.Second)) //nolint:gosec // It is at most minutes.
	}
	text, err := json.Marshal(table)
	if err != nil {
		panic(err) // The table consists of texts, numbers and times.
	}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, apimeta.AnnotationReplicas, string(text))
	return next
}

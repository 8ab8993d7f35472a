// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// State is the state of an object in the metric controller_resources.
type State string

// The states. They follow kstatus: an object whose newest generation was not observed is
// Reconciling.
const (
	StateReady       State = "ready"
	StateReconciling State = "reconciling"
	StateStalled     State = "stalled"
	StateDeleting    State = "deleting"
)

var states = [...]State{StateReady, StateReconciling, StateStalled, StateDeleting}

// ObjectCounts are the numbers of objects of one controller.
type ObjectCounts struct {
	// States is the number of objects by state. Missing states count 0.
	States map[State]int
	// Held is the number of objects that a gate holds, by the name of the gate. List all
	// gates of the controller, also with 0.
	Held map[string]int
	// Namespaces are the counts of the namespaces with objects.
	Namespaces map[string]NamespaceCounts
	// Rollout counts the objects of a rollout; nil for a controller without rollouts.
	Rollout *RolloutCounts
}

// RolloutCounts are the numbers of objects of one controller that wait for a change of the whole
// kind, get it, or failed with it.
type RolloutCounts struct {
	Queued, Active, Failed int
	// Halted is true if the rollout is halted in all namespaces.
	Halted bool
}

// NamespaceCounts are the numbers of objects of one controller and namespace.
type NamespaceCounts struct {
	// States is the number of objects by state, without StateReady.
	States map[State]int
	// Failing is the number of objects whose last pass failed and is retried.
	Failing int
	// Warnings is the number of objects by the name of a warning, without 0.
	Warnings map[string]int
	// OldestDeletion is the earliest deletionTimestamp of the objects. It is zero if no
	// object is being deleted.
	OldestDeletion time.Time
}

// maxNamespaces bounds the namespaces of one controller in a metric. Of the gauges, those with
// most Stalled objects come first, then those with most failing objects, then those with the
// oldest deletion, then those with most warnings.
const maxNamespaces = 50

// namespaceLabel is the label with the namespace of objects, because the label "namespace" is the
// namespace of the operator.
const namespaceLabel = "resource_namespace"

// RegisterObjects reports the objects of a controller at each scrape, until the returned
// function is called. count returns false while the objects are not known. It must be
// cheap, send no request, and be safe for concurrent use. A later registration of the same
// controller replaces an earlier one.
func (m *Metrics) RegisterObjects(controller string, count func() (ObjectCounts, bool)) (end func()) {
	if m == nil {
		return func() {}
	}
	return m.objects.add(controller, count)
}

// objectCollector is the collector of the metrics about objects.
type objectCollector struct {
	resources, held, namespaces, failing         *prometheus.Desc
	rollouts, halted                             *prometheus.Desc
	namespaceResources, namespaceFailing, oldest *prometheus.Desc
	namespaceWarnings                            *prometheus.Desc

	mu sync.Mutex
	by map[string]*objectSource
}

// objectSource counts the objects of one controller.
type objectSource struct{ count func() (ObjectCounts, bool) }

func newObjectCollector() *objectCollector {
	return &objectCollector{
		resources: prometheus.NewDesc("controller_resources",
			"Objects by state (ready, reconciling, stalled or deleting). Only the leader reports them.",
			[]string{"controller", "state"}, nil),
		held: prometheus.NewDesc("controller_held_resources",
			"Objects for which a gate is closed, so that their changes wait. Only the leader reports them.",
			[]string{"controller", "gate"}, nil),
		namespaces: prometheus.NewDesc("controller_namespaces",
			"Namespaces with objects. Only the leader reports them.", []string{"controller"}, nil),
		rollouts: prometheus.NewDesc("controller_rollouts",
			"Objects that wait for a change of their whole kind, such as a newer chart or default value, get it, or failed with it, "+
				"by state (queued, active or failed).", []string{"controller", "state"}, nil),
		halted: prometheus.NewDesc("controller_rollout_halted",
			"1 while failures in several namespaces halt the rollout of such a change everywhere, 0 otherwise.",
			[]string{"controller"}, nil),
		failing: prometheus.NewDesc("controller_failing_namespaces",
			"Namespaces with an object whose last pass failed and is retried. Only the leader reports them.",
			[]string{"controller"}, nil),
		namespaceResources: prometheus.NewDesc("controller_namespace_resources",
			fmt.Sprintf("Objects that are not ready by namespace and state (reconciling, stalled or deleting), "+
				"for at most %d namespaces of a controller. Only the leader reports them.", maxNamespaces),
			[]string{"controller", namespaceLabel, "state"}, nil),
		namespaceFailing: prometheus.NewDesc("controller_namespace_failing_resources",
			fmt.Sprintf("Objects whose last pass failed and is retried, by namespace, for at most %d namespaces of a controller. "+
				"Only the leader reports them.", maxNamespaces),
			[]string{"controller", namespaceLabel}, nil),
		namespaceWarnings: prometheus.NewDesc("controller_namespace_warnings",
			fmt.Sprintf("Objects that may be ready and have a warning, by namespace and warning (NoBackup), for at most %d namespaces of "+
				"a controller. Only the leader reports them.", maxNamespaces),
			[]string{"controller", namespaceLabel, "warning"}, nil),
		oldest: prometheus.NewDesc("controller_oldest_deletion_timestamp_seconds",
			fmt.Sprintf("Unix time of the oldest deletion that waits for a finalizer, by namespace, for at most %d namespaces of a "+
				"controller. It is absent if no object is being deleted.", maxNamespaces),
			[]string{"controller", namespaceLabel}, nil),
		by: map[string]*objectSource{},
	}
}

func (c *objectCollector) add(controller string, count func() (ObjectCounts, bool)) (end func()) {
	added := &objectSource{count}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by[controller] = added
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.by[controller] == added {
			delete(c.by, controller)
		}
	}
}

// Describe implements prometheus.Collector.
func (c *objectCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		c.resources, c.held, c.namespaces, c.failing, c.namespaceResources, c.namespaceFailing, c.namespaceWarnings, c.oldest, c.rollouts,
		c.halted,
	} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c *objectCollector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	by := maps.Clone(c.by)
	c.mu.Unlock()
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	for controller, source := range by {
		counts, known := source.count()
		if !known {
			continue
		}
		for _, state := range states {
			gauge(c.resources, float64(counts.States[state]), controller, string(state))
		}
		for gate, held := range counts.Held {
			gauge(c.held, float64(held), controller, gate)
		}
		if r := counts.Rollout; r != nil {
			for state, objects := range map[string]int{"queued": r.Queued, "active": r.Active, "failed": r.Failed} {
				gauge(c.rollouts, float64(objects), controller, state)
			}
			halted := 0.0
			if r.Halted {
				halted = 1
			}
			gauge(c.halted, halted, controller)
		}
		failing := 0
		for _, found := range counts.Namespaces {
			failing += min(found.Failing, 1)
		}
		gauge(c.namespaces, float64(len(counts.Namespaces)), controller)
		gauge(c.failing, float64(failing), controller)
		for _, namespace := range worst(counts.Namespaces) {
			found := counts.Namespaces[namespace]
			for state, objects := range found.States {
				gauge(c.namespaceResources, float64(objects), controller, namespace, string(state))
			}
			if found.Failing > 0 {
				gauge(c.namespaceFailing, float64(found.Failing), controller, namespace)
			}
			for warning, objects := range found.Warnings {
				gauge(c.namespaceWarnings, float64(objects), controller, namespace, warning)
			}
			if !found.OldestDeletion.IsZero() {
				gauge(c.oldest, float64(found.OldestDeletion.Unix()), controller, namespace)
			}
		}
	}
}

// worst returns the names of at most maxNamespaces namespaces with objects that are not ready, that
// fail or that have a warning.
func worst(namespaces map[string]NamespaceCounts) []string {
	var names []string
	for name, found := range namespaces {
		if len(found.States) > 0 || found.Failing > 0 || len(found.Warnings) > 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		deletion := func(name string) int64 {
			if at := namespaces[name].OldestDeletion; !at.IsZero() {
				return at.Unix()
			}
			return math.MaxInt64
		}
		warnings := func(name string) (objects int) {
			for _, number := range namespaces[name].Warnings {
				objects += number
			}
			return objects
		}
		return cmp.Or(
			cmp.Compare(namespaces[b].States[StateStalled], namespaces[a].States[StateStalled]),
			cmp.Compare(namespaces[b].Failing, namespaces[a].Failing),
			cmp.Compare(deletion(a), deletion(b)),
			cmp.Compare(warnings(b), warnings(a)), cmp.Compare(a, b))
	})
	return names[:min(len(names), maxNamespaces)]
}

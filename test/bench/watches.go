// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"

	"github.com/example/demoapp-controller/test/cluster"
)

const (
	watchesGroup = "bench.example.com"

	// othersNamespaces is the number of namespaces of others, and othersBytes the size of each of their objects.
	othersNamespaces = 5
	othersBytes      = 1 << 10
)

// watchesBench measures releases of many kinds of watches.yaml.
type watchesBench struct {
	*bench

	kinds, each int
	dynamic     dynamic.Interface
	states      states
}

// measureWatches measures kinds x each releases on a control plane of its own, and prints a report as Markdown.
func measureWatches(ctx context.Context, o options, s size, binary string) error {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: 1})
	if err != nil {
		return err
	}
	defer func() { // The control plane is stopped after the end of ctx, too.
		if err := c.Stop(); err != nil {
			log.Print(err)
		}
	}()
	b, err := newWatchesBench(ctx, c, o, s)
	if err != nil {
		return err
	}
	defer b.close()
	f, err := b.run(ctx, binary)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, b.operatorLog())
	}
	fmt.Print(b.report(f))
	return nil
}

func newWatchesBench(ctx context.Context, c *cluster.Cluster, o options, s size) (*watchesBench, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &watchesBench{
		bench: &bench{options: o, size: s.apps * s.rounds, cluster: c, config: c.AdminConfig(), kube: c.Client, dir: dir, stop: stop},
		kinds: s.apps, each: s.rounds, dynamic: c.Dynamic,
	}
	if err := b.deploy(ctx); err != nil {
		return nil, err
	}
	for i := range b.kinds {
		informer := dynamicinformer.NewFilteredDynamicInformer(b.dynamic, b.resource(i), metav1.NamespaceAll, 0, nil, nil).Informer()
		if _, err := informer.AddEventHandler(b.states.handler(b.kind(i))); err != nil {
			return nil, err
		}
		go informer.RunWithContext(watching)
	}
	return b, nil
}

func (b *watchesBench) kind(i int) string { return fmt.Sprintf("Bench%02d", i%b.kinds) }

func (b *watchesBench) resource(i int) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: watchesGroup, Version: "v1", Resource: strings.ToLower(b.kind(i)) + "s"}
}

// run measures all phases.
func (b *watchesBench) run(ctx context.Context, binary string) (f watchesFigures, err error) {
	phases := []struct {
		name string
		run  func() error
	}{
		{"sample", func() error { return b.sampleRelease(ctx, binary) }},
		{"floor", func() error { return b.runFloor(ctx, &f) }},
		{"start", func() error { return b.startOperator(ctx, binary) }},
		{"install", func() error {
			return b.phase(ctx, &f.install, func() error { return b.createAll(ctx, benchNamespace, nil) }, isDeployed)
		}},
		{"settle", func() error { return b.quiet(ctx) }},
		{"idle", func() error { return b.observeIdle(ctx, &f) }},
		{"upgrade", func() error {
			return b.phase(ctx, &f.upgrade, func() error { return b.changeAll(ctx, benchNamespace, nil) }, isUpgraded)
		}},
		{"memory", func() error { return b.measureMemory(ctx, binary, &f) }},
		{"delete", func() error { return b.phase(ctx, &f.delete, func() error { return b.deleteAllOf(ctx) }, nil) }},
	}
	for _, phase := range phases {
		started := time.Now()
		if err := phase.run(); err != nil {
			return f, fmt.Errorf("%s: %w", phase.name, err)
		}
		log.Printf("%d kinds with %d releases each: %s took %s", b.kinds, b.each, phase.name, time.Since(started).Round(time.Second))
	}
	return f, b.stopOperator()
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// Example keeps one release of the embedded chart as it is desired, for an hour: a
// controller without its custom resource. It needs a cluster.
func Example() {
	ctx, stop := context.WithTimeout(context.Background(), time.Hour)
	err := keep(ctx)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func keep(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", clientcmd.RecommendedHomeFile)
	if err != nil {
		return err
	}
	engine, err := helm.New(helm.Config{RESTConfig: config, Namespaces: []string{"default"}})
	if err != nil {
		return err
	}
	loaded, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		return err
	}
	desired := helm.Release{
		Namespace: "default", Name: "web", Chart: loaded,
		Values: map[string]any{"message": "Hello", "apiKey": "verysecret"},
	}

	// A controller has a queue here, and a key in it for each custom resource.
	look := make(chan struct{}, 1)
	again := func() {
		select {
		case look <- struct{}{}:
		default: // It will look anyway.
		}
	}
	engine.Subscribe(func(release cache.ObjectName, _ helm.Change) {
		if release == desired.Key() {
			again()
		}
	})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { engine.Run(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), engine.HasSynced) {
		return helm.ErrNotSynced
	}

	var baseline helm.Baseline // A controller keeps it in the status of the custom resource.
	for again(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-look:
		}
		deployed, err := reconcile(ctx, engine, desired, baseline)
		switch {
		case deployed != nil:
			baseline = deployed.Baseline()
		case helm.IsTerminal(err):
			log.Println("Waiting for somebody to change something:", err)
		case err != nil:
			log.Println("Trying again:", err)
			time.AfterFunc(retryAfter(err), again)
		}
	}
}

func reconcile(ctx context.Context, engine *helm.Engine, desired helm.Release, baseline helm.Baseline) (*helm.Deployed, error) {
	observed, err := engine.Observe(ctx, desired.Key(), baseline)
	if err != nil {
		return nil, err
	}
	decision, err := engine.Decide(desired, observed)
	if err != nil {
		return nil, err
	}
	if decision.Action != helm.ActionNone {
		log.Println("Due:", decision.Action, decision.Cause, decision.Drifts)
	}
	return engine.Execute(ctx, desired, decision, baseline)
}

func retryAfter(err error) time.Duration {
	var busy *helm.BusyError
	if errors.As(err, &busy) {
		return busy.RetryAfter
	}
	return 5 * time.Second
}

// Deciding takes no cluster, so that a test of a controller needs none either.
func ExampleDecide() {
	loaded, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		log.Fatal(err)
	}
	desired := helm.Release{
		Namespace: "default", Name: "web", Chart: loaded, Values: map[string]any{"apiKey": "verysecret"},
		Owner: &metav1.OwnerReference{APIVersion: "demo.example.com/v1alpha1", Kind: "DemoApp", Name: "web", UID: "1"},
	}
	inputs, err := desired.InputDigest()
	if err != nil {
		log.Fatal(err)
	}
	deployed := &record.Record{Revision: 3, Status: "deployed", Own: true, Inputs: inputs}
	service := helm.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: "default", Name: "web"}

	for _, observed := range []helm.Snapshot{
		{},
		{Record: deployed, BaselineKnown: true},
		{Record: deployed, BaselineKnown: true, Drifts: []helm.Drift{{Object: service, Kind: helm.DriftMissing}}},
		{Record: &record.Record{Revision: 4, Status: "deployed"}},
	} {
		decision := helm.Decide(inputs, observed, time.Now(), helm.DefaultTimeout)
		fmt.Println(decision.Action, decision.Cause, decision.Drifts)
	}
	// Output:
	// Install NotInstalled []
	// None  []
	// Repair Drift [Service default/web Missing]
	// Upgrade ReleaseChanged []
}

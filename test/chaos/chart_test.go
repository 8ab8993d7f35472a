// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/test/cluster"
)

// newerVersion is the version of a chart that the operator finds after a restart.
const newerVersion = "99.0.0"

// TestRestartWithOtherChart kills the operator after each request that creates an object of
// watches.yaml. For the next processes, of which the first is killed after its first request, the
// chart has another version, without a Service. The state must equal the state of a fresh object
// with this chart. A short test plays one request, which the seed selects.
func TestRestartWithOtherChart(t *testing.T) { //nolint:tparallel // The shared operator does not run meanwhile.
	stopShared(t)
	chart := copyChart(t, memcachedChart(), newerVersion)
	if err := os.Remove(filepath.Join(chart, "templates", "service.yaml")); err != nil {
		t.Fatal(err)
	}
	newer := watchesOf(t, chart)
	for name, s := range subjects {
		if !s.release || name == "DemoApp" { // The chart of DemoApp is a part of the operator.
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var want outcome
			var sent []string
			withSlot(func() { want, sent = playAlone(t, s) })
			fresh := shared.Namespace(t)
			withSlot(func() { createWith(t, newer, s, fresh) })
			for _, nth := range requestsUpTo(want.creations - statusWrites) {
				t.Run(strconv.Itoa(nth), func(t *testing.T) {
					t.Parallel()
					t.Logf("killed after the request %q of the undisturbed run", sent[nth-1])
					withSlot(func() { playOtherChart(t, s, nth, newer, fresh, want) })
				})
			}
		})
	}
}

// copyChart copies a chart, with another version, to a folder of the same name in an empty one.
func copyChart(t *testing.T, dir, version string) (copied string) {
	t.Helper()
	copied = filepath.Join(t.TempDir(), filepath.Base(dir))
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	definition := filepath.Join(copied, "Chart.yaml")
	changed := regexp.MustCompile(`(?m)^version: .*$`).ReplaceAll(readFile(t, definition), []byte("version: "+version))
	if err := os.WriteFile(definition, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

// createWith creates a subject with an operator of its own, which has a watches file.
func createWith(t *testing.T, watches string, s subject, namespace string) {
	t.Helper()
	own := launchWith(watches, namespace)
	alone := newRestarts(t, own, own)
	defer alone.end()
	s.prepare(t, namespace)
	object := apply(t.Context(), t, namespace, s.object)[0]
	shared.AwaitReady(t.Context(), t, namespace, object)
	for name, object := range settled(t.Context(), t, creation, namespace, nil) {
		if version := mapOf(object)["chart"]; ofRelease.MatchString(name) && version != newerVersion {
			t.Errorf("the release has version %v of the chart, want %s", version, newerVersion)
		}
	}
}

// launchWith describes an operator of a namespace that has a watches file.
func launchWith(watches, namespace string) cluster.Launch {
	own := launchFor(namespace)
	own.Args = slices.Concat(own.Args, []string{watches})
	return own
}

// playOtherChart creates and deletes a subject. The operator is killed after a request of the
// creation, from 1, and the next ones have another watches file.
func playOtherChart(t *testing.T, s subject, nth int, watches, fresh string, want outcome) {
	t.Helper()
	ctx, namespace := t.Context(), shared.Namespace(t)
	countMet(t, namespace, inARow)
	r := newRestarts(t, launchFor(namespace), launchWith(watches, namespace))
	defer r.end()
	sabotage.watch(namespace, plan{nth: nth, times: inARow, fault: r.crash, meets: once()})
	defer logRequests(t, namespace)
	s.prepare(t, namespace)
	h := history{subject: s, namespace: namespace, object: apply(ctx, t, namespace, s.object)[0]}
	shared.AwaitReady(ctx, t, namespace, h.object)

	h.compare(ctx, t, fresh)

	r.assertSelfEnded(t, 0)
	client := clientOf(t, h.object, namespace)
	if err := client.Delete(ctx, h.object.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitGone(ctx, t, client, h.object.GetName())
	awaitCollected(ctx, t, namespace)
	settled(ctx, t, deletion, namespace, want.states[len(want.states)-1])
}

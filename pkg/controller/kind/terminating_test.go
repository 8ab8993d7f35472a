// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package kind_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/test/expect"
)

// terminating is the API server's refusal of a new object in a namespace that is being deleted.
func terminating() error {
	err := apierrors.NewForbidden(corev1.Resource("secrets"), "web", errors.New("it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestTerminatingNamespaceEndsAllWorkButDeletions(t *testing.T) {
	var steps, finalized int
	w := newWorld(t, func(_ *world, k *kind.Definition[*cluster, v1alpha1.DemoAppClusterStatus]) {
		k.Finalizer = ours
		k.Steps = func(_ context.Context, p *pass) error {
			steps++
			p.Conditions().MarkReconciling("Failed", "")
			return fmt.Errorf("create: %w", terminating())
		}
		k.Finalize = func(context.Context, *pass) (event.Event, error) {
			finalized++
			return event.Event{}, nil
		}
	})

	result, err := w.pass()
	expect.NoError(t, err)
	first := w.requests
	for range 2 {
		_, err = w.pass()
		expect.NoError(t, err)
		expect.Equal(t, "requests while the namespace is being deleted", []string(nil), w.requests)
	}
	expect.Equal(t, "calls of Steps", 1, steps)
	w.clock.Step(30 * time.Second)
	_, err = w.pass()
	expect.NoError(t, err)
	expect.Equal(t, "calls of Steps after a while", 2, steps)
	w.sync()
	w.delete()
	_, err = w.pass()

	expect.NoError(t, err)
	expect.Equal(t, "requests of the first pass", []string{"patch "}, first)
	expect.Equal(t, "events", []string(nil), w.events)
	expect.Equal(t, "calls of Finalize", 1, finalized)
	if result.RequeueAfter < 25*time.Second || result.RequeueAfter > 35*time.Second {
		t.Errorf("next pass in %v", result.RequeueAfter)
	}
}

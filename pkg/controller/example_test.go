// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller"
)

// A controller over a built-in kind: one informer, one handler, one reconciler.
func Example() {
	stop, shutDown := context.WithCancel(context.Background())
	lead, release := context.WithCancel(context.Background())
	defer release()

	clientset := fake.NewClientset(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 1},
	})
	factory := informers.NewSharedInformerFactory(clientset, 0)
	lister := factory.Apps().V1().Deployments().Lister()

	reconcile := func(_ context.Context, key cache.ObjectName, why controller.Reason) (controller.Result, error) {
		defer shutDown()
		web, err := lister.Deployments(key.Namespace).Get(key.Name)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		} else if err != nil {
			return controller.Result{}, err
		}
		fmt.Printf("%s at generation %d, because of %s\n", key, web.Generation, why)
		return controller.Result{RequeueAfter: controller.Jitter(10 * time.Minute)}, nil
	}
	c := controller.New(controller.ReconcilerFunc(reconcile), controller.Options{Name: "deployments"})
	synced, err := controller.AddHandler("deployments", factory.Apps().V1().Deployments().Informer(),
		controller.SpecHandler[*appsv1.Deployment](c))
	if err != nil {
		fmt.Println(err)
		return
	}
	factory.StartWithContext(lead)
	if err := c.Run(stop, lead, synced); err != nil {
		fmt.Println(err)
	}
	// Release the lease and stop the informers only after Run has returned.
	release()
	factory.Shutdown()
	// Output: default/web at generation 1, because of SpecChange
}

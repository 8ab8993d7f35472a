// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/applyconfigurations"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// Kube is client-go's fake clientset for the stable kinds of workloads. The tracker of client-go's
// own goes through all types of its scheme at each write, which takes a third of a test's time.
type Kube struct {
	*kubefake.Clientset
	tracker clienttesting.ObjectTracker
}

var kubeScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	add := runtime.NewSchemeBuilder(appsv1.AddToScheme, autoscalingv2.AddToScheme, batchv1.AddToScheme,
		corev1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme)
	utilruntime.Must(add.AddToScheme(scheme))
	return scheme
}()

// NewKube returns a clientset without objects.
func NewKube() *Kube {
	tracker := clienttesting.NewFieldManagedObjectTracker(kubeScheme,
		serializer.NewCodecFactory(kubeScheme).UniversalDecoder(), applyconfigurations.NewTypeConverter(kubeScheme))
	kube := &Kube{Clientset: kubefake.NewClientset(), tracker: tracker}
	kube.PrependReactor("*", "*", clienttesting.ObjectReaction(tracker))
	kube.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		var options metav1.ListOptions
		if watching, ok := action.(clienttesting.WatchActionImpl); ok {
			options = watching.ListOptions
		}
		watching, err := tracker.Watch(action.GetResource(), action.GetNamespace(), options)
		return err == nil, watching, err
	})
	return kube
}

// Tracker returns the objects of the clientset.
func (k *Kube) Tracker() clienttesting.ObjectTracker { return k.tracker }

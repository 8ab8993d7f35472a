// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

// serve adds the kind Service, which is optional.
func (f *family) serve() {
	f.t.Helper()
	kind, err := Of(f, f.kube, serviceKind, f.kube.CoreV1().Services)
	expect.NoError(f.t, err)
	added, err := f.set.Add(f, kind)
	expect.NoError(f.t, err)
	f.Run(added.Run)
}

func service() Desired {
	return corev1ac.Service("web", "").WithSpec(corev1ac.ServiceSpec().WithPorts(corev1ac.ServicePort().WithPort(80)))
}

func TestOptionalChildWaitsForItsKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("a"), service())

		f.start()

		if diff := cmp.Diff([]string{"patch configmaps/web"}, f.Take()); diff != "" {
			t.Errorf("requests before the kind is served (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]childv1alpha1.ChildName{"Service/web"}, f.state.Unserved); diff != "" || f.err != nil {
			t.Errorf("error %v, unserved (-want +got):\n%s", f.err, diff)
		}
		if !f.state.IsUnserved("Service") || f.state.IsUnserved("ConfigMap") {
			t.Errorf("state is %+v, want the Service alone to be left out", f.state)
		}

		f.serve()

		if diff := cmp.Diff([]string{"patch services/web"}, f.Take()); diff != "" {
			t.Errorf("requests once the kind is served (-want +got):\n%s", diff)
		}
		if len(f.state.Unserved) > 0 || f.state.Of("Service", "web").Name == "" {
			t.Errorf("state is %+v, want a Service", f.state)
		}
	})
}

func TestOptionalChildIsKeptAcrossRestart(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("a"), service())
		f.serve()
		f.Stop()
		f.forget()

		f.start()

		if !slices.Contains(applied(f), "services") {
			t.Errorf("applied are %v, want the Service beside the ConfigMap", applied(f))
		}

		f.serve()

		if got := f.Take(); len(got) > 0 {
			t.Errorf("requests are %v, want none", got)
		}
	})
}

func TestOptionalChildIsRestoredAndPruned(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, service())
		f.serve()
		f.forget()

		f.Act(func() error { return f.kube.CoreV1().Services("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}) })
		if diff := cmp.Diff([]string{"patch services/web"}, f.Take()); diff != "" {
			t.Errorf("requests after a deletion (-want +got):\n%s", diff)
		}
		f.desired = nil
		f.pass()

		if diff := cmp.Diff([]string{"delete services/web"}, f.Take()); diff != "" {
			t.Errorf("requests for a child that is no longer desired (-want +got):\n%s", diff)
		}
	})
}

func TestOptionalKindNoLongerServed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t)
		f.serve()
		f.forget()
		f.Refuse(func(string) error {
			return &apierrors.StatusError{ErrStatus: apierrors.NewGenericServerResponse(404, "patch", schema.GroupResource{}, "", "", 0, true).ErrStatus}
		})
		f.desired = []Desired{service()}

		f.pass()

		if f.err != nil || len(f.state.Unserved) != 1 || f.state.RetryAfter != unservedRetry {
			t.Errorf("error %v, state %+v, want one unserved child", f.err, f.state)
		}
	})
}

// TestOptionalChildThatAdmissionRefuses: a webhook may answer NotFound about an object that it misses.
// The kind is still served.
func TestOptionalChildThatAdmissionRefuses(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t)
		f.serve()
		f.forget()
		f.Refuse(func(string) error { return apierrors.NewNotFound(schema.GroupResource{Resource: "tenants"}, "one") })
		f.desired = []Desired{service()}

		f.pass()

		if f.err == nil || len(f.state.Unserved) > 0 {
			t.Errorf("error %v, unserved %v; want the answer of the webhook", f.err, f.state.Unserved)
		}
	})
}

// TestChildrenAreRestoredWithTheirCRD deletes the CRD of a kind, which deletes the children, and
// creates it again.
func TestChildrenAreRestoredWithTheirCRD(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, service())
		f.serve()
		f.forget()
		unserved := true
		f.Refuse(func(string) error {
			if !unserved {
				return nil
			}
			return &apierrors.StatusError{ErrStatus: apierrors.NewGenericServerResponse(404, "patch", schema.GroupResource{}, "", "", 0, true).ErrStatus}
		})
		f.Act(func() error { return f.kube.CoreV1().Services("ns").Delete(t.Context(), "web", metav1.DeleteOptions{}) })
		if verdict := Judge(f.state, f.err); verdict.Reason != childv1alpha1.ReasonKindUnserved {
			t.Errorf("verdict is %+v", verdict)
		}
		if verdict := f.state.VerdictOn(service()); verdict.Reason != childv1alpha1.ReasonKindUnserved {
			t.Errorf("verdict on the child is %+v", verdict)
		}
		f.forget()

		unserved = false
		f.Act(func() error { // The informer gets an event of the kind.
			_, err := f.kube.CoreV1().Services("ns").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "other", Labels: map[string]string{ManagedByLabel: FieldManager},
			}}, metav1.CreateOptions{})
			return err
		})
		f.Wait(2 * servedInterval)

		if diff := cmp.Diff([]string{"patch services/web"}, f.Take()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if verdict := Judge(f.state, f.err); verdict.Reason == childv1alpha1.ReasonKindUnserved {
			t.Errorf("verdict is %+v", verdict)
		}
	})
}

// TestOptionalKindThatCannotBeListed: after a restart, a kind whose list fails holds neither the
// start of the loop nor the other children. The owner is not ready, and says which child cannot be
// watched.
func TestOptionalKindThatCannotBeListed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("a"), service())
		f.serve()
		f.Stop()
		f.forget()
		var broken atomic.Bool
		broken.Store(true)
		fails := func() (bool, error) {
			return broken.Load(), apierrors.NewInternalError(errors.New("conversion webhook failed"))
		}
		f.kube.PrependReactor("list", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
			handled, err := fails()
			return handled, nil, err
		})
		f.kube.PrependWatchReactor("services", func(clienttesting.Action) (bool, watch.Interface, error) {
			handled, err := fails()
			return handled, nil, err
		})
		f.desired = []Desired{configMap("b"), service()}
		f.serveAtStart = true
		f.start()

		if diff := cmp.Diff([]string{"patch configmaps/web"}, f.Take()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		if !controller.IsPending(f.err) {
			t.Errorf("error is %v, want that the status waits for the first list", f.err)
		}
		f.Wait(3 * listTimeout)
		verdict := Judge(f.state, f.err)
		expect.Equal(t, "reason", childv1alpha1.ReasonKindUnserved, verdict.Reason)
		expect.Contains(t, "message", verdict.Message, `Service "web" cannot be watched`)

		broken.Store(false)
		f.Wait(2 * time.Minute)

		if verdict := Judge(f.state, f.err); f.err != nil || verdict.Reason == childv1alpha1.ReasonKindUnserved {
			t.Errorf("error %v, verdict %+v", f.err, verdict)
		}
	})
}

func TestAddOfRequiredKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t)
		kind, err := Of(f, f.kube, corev1.SchemeGroupVersion.WithKind("ConfigMap"), f.kube.CoreV1().ConfigMaps)
		expect.NoError(t, err)

		_, err = f.set.Add(f, kind)

		if err == nil {
			t.Error("Add accepts a kind that is not optional")
		}
	})
}

func TestDynamicKind(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t)
		resource := schema.GroupVersionResource{Version: "v1", Resource: "services"}
		client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
			map[schema.GroupVersionResource]string{resource: "ServiceList"}, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{
					"namespace": "ns", "name": "web", "uid": "1", "labels": map[string]any{ManagedByLabel: FieldManager},
				},
			}})
		kind, err := Dynamic(f, client, serviceKind, resource)
		expect.NoError(t, err)
		added, err := f.set.Add(f, kind)
		expect.NoError(t, err)
		f.Run(added.Run)
		f.desired = []Desired{Untyped{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "web"}}}

		f.pass()

		var conflict *OwnershipConflictError
		if !errors.As(f.err, &conflict) {
			t.Errorf("error is %v, want a conflict with the Service that exists", f.err)
		}
	})
}

// TestOptionalChildIsPrunedOnceServed: a child that is not desired while its kind is not served, such as
// after a restart, is deleted when the kind is served.
func TestOptionalChildIsPrunedOnceServed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("a"), service())
		f.serve()
		f.Stop()
		f.desired = []Desired{configMap("a")}
		f.Act(func() error { // Without the label, no cache shows the child, so no event queues its owner.
			found, err := f.kube.CoreV1().Services("ns").Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			delete(found.Labels, ManagedByLabel)
			_, err = f.kube.CoreV1().Services("ns").Update(t.Context(), found, others)
			return err
		})

		f.start()
		f.pass()
		f.forget()
		f.serve()

		if diff := cmp.Diff([]string{"get services/web", "delete services/web"}, f.Take()); diff != "" {
			t.Errorf("requests once the kind is served (-want +got):\n%s", diff)
		}
		if slices.Contains(applied(f), "services") {
			t.Errorf("applied are %v, want no Service", applied(f))
		}
	})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

func TestOnceChildIsNeverChanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, Once(secret("first")))

		f.desired = []Desired{Once(secret("second"))}
		f.pass()
		f.Stop()
		f.start()

		expect.Equal(t, "requests", []string(nil), f.Take())
		expect.Equal(t, "status", []childv1alpha1.AppliedChild{{Kind: "Secret", Name: "web", UID: string(f.state.Of("Secret", "web").UID)}}, f.status.Applied)
	})
}

func TestOnceChildUsesObjectOfUser(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, Once(configMap("generated")))
		f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"key": "theirs"}})

		f.start()

		expect.NoError(t, f.err)
		expect.Equal(t, "data", map[string]string{"key": "theirs"}, f.configMap().Data)
		expect.Equal(t, "status", []childv1alpha1.AppliedChild(nil), f.status.Applied)
		f.desired = nil
		f.pass()
		expect.Equal(t, "data, when no longer desired", map[string]string{"key": "theirs"}, f.configMap().Data)
	})
}

func TestObjectOfUserIsNotReadInEachPass(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, Once(configMap("generated")))
		f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"key": "theirs"}})
		f.start()
		first := f.Take()

		f.pass()
		next := f.Take()
		f.remove()
		f.Wait(conflictRetry)
		f.pass()

		expect.Equal(t, "requests of the first pass", []string{"patch configmaps/web", "get configmaps/web"}, first)
		expect.Equal(t, "requests of the next pass", []string(nil), next)
		expect.Equal(t, "data after the user deleted it", map[string]string{"key": "generated"}, f.configMap().Data)
	})
}

func TestStaleOwnerDoesNotReclaimChild(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		f.confirmErr = &controller.StaleError{Object: cache.NewObjectName("ns", "web")}

		f.change(func(c *corev1.ConfigMap) { c.OwnerReferences = nil })

		expect.Equal(t, "requests", []string(nil), f.Take())
		if !controller.IsPending(f.err) {
			t.Errorf("error is %v, want a pending one", f.err)
		}
		f.confirmErr = nil
		f.pass()
		expect.NoError(t, f.err)
		expect.Equal(t, "controlled by the owner that is the newest version", true, metav1.IsControlledBy(f.configMap(), f.owner))
	})
}

func TestStaleOwnerChangesNoChild(t *testing.T) {
	tests := map[string]struct {
		desired []Desired
		// request is the request of the newest version.
		request string
	}{
		"deletion": {nil, "delete configmaps/web"},
		"change":   {[]Desired{configMap("two")}, "patch configmaps/web"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"))
				f.confirmErr = &controller.StaleError{Object: cache.NewObjectName("ns", "web")}
				f.desired = test.desired

				f.pass()

				expect.Equal(t, "requests", []string(nil), f.Take())
				if !controller.IsPending(f.err) {
					t.Errorf("error is %v, want a pending one", f.err)
				}
				f.confirmErr = nil
				f.pass()
				expect.NoError(t, f.err)
				expect.Equal(t, "requests of the newest version", []string{test.request}, f.Take())
			})
		})
	}
}

func TestObjectsOfOtherOwnersAreConflicts(t *testing.T) {
	controlledBy := func(kind, name string, uid types.UID) []metav1.OwnerReference {
		return []metav1.OwnerReference{Reference(&metav1.ObjectMeta{Name: name, UID: uid}, "v1", kind)}
	}
	labels := map[string]string{ManagedByLabel: FieldManager}
	tests := map[string]struct {
		object  metav1.ObjectMeta
		message string
	}{
		"no owner":            {metav1.ObjectMeta{}, `ConfigMap "web" exists and belongs to no owner`},
		"no owner, our label": {metav1.ObjectMeta{Labels: labels}, `belongs to no owner`},
		"an owner of another kind": {
			metav1.ObjectMeta{OwnerReferences: controlledBy("Pod", "web", "other")}, `belongs to Pod "web"`,
		},
		"an owner of another name": {
			metav1.ObjectMeta{Labels: labels, OwnerReferences: controlledBy("Secret", "db", "other")}, `belongs to Secret "db"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := emptyFamily(t, configMap("one"), deployment("nginx:1"))
				test.object.Name = "web"
				f.create(&corev1.ConfigMap{ObjectMeta: test.object, Data: map[string]string{"key": "theirs"}})

				f.start()

				var conflict *OwnershipConflictError
				if !errors.As(f.err, &conflict) || !controller.IsTerminal(f.err) || !strings.Contains(f.err.Error(), test.message) {
					t.Errorf("error is %v, want a terminal one containing %q", f.err, test.message)
				}
				expect.Equal(t, "data", map[string]string{"key": "theirs"}, f.configMap().Data)
				expect.Equal(t, "the other child", []string{"deployments"}, applied(f))
				f.Act(func() error {
					return f.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "web", metav1.DeleteOptions{})
				})
				f.Wait(2 * conflictRetry)
				expect.NoError(t, f.err)
				expect.Equal(t, "data once it is gone", map[string]string{"key": "one"}, f.configMap().Data)
			})
		})
	}
}

// TestOwnerIsQueuedWhenNameBecomesFree: an object that the watch of children shows needs no timer.
func TestOwnerIsQueuedWhenNameBecomesFree(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("one"))
		f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: "web", Labels: map[string]string{ManagedByLabel: FieldManager},
			OwnerReferences: []metav1.OwnerReference{Reference(&metav1.ObjectMeta{Name: "other", UID: "other"}, "v1", "Secret")},
		}})
		f.start()
		f.forget()

		f.remove()

		expect.NoError(t, f.err)
		if len(f.passes) != 1 || !f.passes[0].Has(controller.DependencyReady) {
			t.Errorf("passes for %v, want one for DependencyReady", f.passes)
		}
		expect.Equal(t, "data", map[string]string{"key": "one"}, f.configMap().Data)
	})
}

func TestForgedStatusDoesNotTakeOverAnObject(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("one"))
		f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}})
		f.status.Applied = []childv1alpha1.AppliedChild{{Kind: "ConfigMap", Name: "web", UID: string(f.configMap().UID)}}

		f.start()

		if !controller.IsTerminal(f.err) {
			t.Errorf("error is %v", f.err)
		}
		f.desired = nil
		f.pass()
		if f.configMap() == nil {
			t.Error("the object was deleted")
		}
	})
}

func TestForgedNameInStatusIsDropped(t *testing.T) {
	for _, name := range []string{"", "..", "a/b", "a%2f"} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"))
				f.status.Applied = append(f.status.Applied, childv1alpha1.AppliedChild{Kind: "ConfigMap", Name: name, UID: "forged"})

				f.pass()

				expect.NoError(t, f.err)
				expect.Equal(t, "requests", []string(nil), f.Take())
				expect.Equal(t, "children in the status", []string{"configmaps"}, applied(f))
			})
		})
	}
}

func TestChildOfPredecessorIsAwaited(t *testing.T) {
	for name, labels := range map[string]map[string]string{"watched": {ManagedByLabel: FieldManager}, "without the label": nil} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := emptyFamily(t, configMap("one"))
				f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
					Name: "web", Labels: labels,
					OwnerReferences: []metav1.OwnerReference{Reference(&metav1.ObjectMeta{Name: "web", UID: "before"}, "v1", "Secret")},
				}})

				f.start()
				waiting, err, before := f.state.Waiting, f.err, f.configMap()
				f.Act(func() error { // As the garbage collector does.
					return f.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "web", metav1.DeleteOptions{})
				})
				f.Wait(2 * conflictRetry)

				expect.NoError(t, err)
				expect.Equal(t, "waiting", []string{`ConfigMap "web" is being deleted`}, waiting)
				expect.Equal(t, "the predecessor's child", 0, len(before.Data))
				expect.Equal(t, "data afterwards", map[string]string{"key": "one"}, f.configMap().Data)
			})
		})
	}
}

func TestApplyFieldsKeepsOtherFields(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t)
		f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"key": "theirs"}})
		client := f.kube.CoreV1().ConfigMaps("ns")
		fields := corev1ac.ConfigMap("web", "ns").WithAnnotations(map[string]string{"example.com/hash": "1"})

		applied, err := ApplyFields(t.Context(), client, "reloader", f.configMap().UID, fields)
		_, otherErr := ApplyFields(t.Context(), client, "reloader", "another", fields)
		_, anyErr := ApplyFields(t.Context(), client, "reloader", "", fields)

		expect.NoError(t, err)
		expect.Equal(t, "data", map[string]string{"key": "theirs"}, applied.Data)
		expect.Equal(t, "annotations", map[string]string{"example.com/hash": "1"}, applied.Annotations)
		if !apierrors.IsConflict(otherErr) {
			t.Errorf("apply to another object: %v", otherErr)
		}
		if anyErr == nil {
			t.Error("an apply to any object of this name is allowed")
		}
	})
}

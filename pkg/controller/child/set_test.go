// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"strings"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

func TestEnsureCreatesChildrenOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("one"), deployment("nginx:1"))

		f.start()

		expect.Equal(t, "requests", []string{"patch configmaps/web", "patch deployments/web"}, f.Take())
		expect.Equal(t, "passes", []controller.Reason{controller.SpecChange}, f.passes)
		created := f.configMap()
		expect.Equal(t, "labels", map[string]string{"app": "web", ManagedByLabel: FieldManager}, created.Labels)
		expect.Equal(t, "owner", []metav1.OwnerReference{Reference(f.owner, "v1", "Secret")}, created.OwnerReferences)
		expect.Equal(t, "number of children in the status", 2, len(f.status.Applied))
	})
}

func TestUnchangedChildrenCauseNoRequests(t *testing.T) {
	tests := map[string]func(*family){
		"another pass": (*family).pass,
		"a restart":    func(f *family) { f.Stop(); f.start() },
		"a restart with records of an earlier version": func(f *family) {
			f.Stop()
			for i := range f.status.Applied {
				f.status.Applied[i].Fingerprint, _, _ = strings.Cut(f.status.Applied[i].Fingerprint, "@")
			}
			f.start()
		},
		"fields of others": func(f *family) {
			f.change(func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })
			f.pass()
		},
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"), deployment("nginx:1"), secret("s3cret"))

				happens(f)

				expect.Equal(t, "requests", []string(nil), f.Take())
				expect.NoError(t, f.err)
			})
		})
	}
}

func TestDriftIsCorrectedWithOneApply(t *testing.T) {
	tests := map[string]struct {
		change   func(*family)
		requests []string
	}{
		"a changed value": {
			func(f *family) { f.change(func(c *corev1.ConfigMap) { c.Data["key"] = "theirs" }) }, []string{"patch configmaps/web"},
		},
		"a value applied under the operator's field manager": {
			func(f *family) { f.applyAsOperator(time.Second) }, []string{"patch configmaps/web"},
		},
		"a value applied under the operator's field manager within a second": {
			func(f *family) { f.applyAsOperator(0) }, []string{"patch configmaps/web"},
		},
		"a removed label of the operator": {
			func(f *family) { f.change(func(c *corev1.ConfigMap) { delete(c.Labels, "app") }) }, []string{"patch configmaps/web"},
		},
		"a removed owner": {
			func(f *family) { f.change(func(c *corev1.ConfigMap) { c.OwnerReferences = nil }) }, []string{"patch configmaps/web"},
		},
		"a deletion": {
			func(f *family) {
				f.Act(func() error {
					return f.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "web", metav1.DeleteOptions{})
				})
			}, []string{"patch configmaps/web"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"), deployment("nginx:1"))

				test.change(f)

				expect.Equal(t, "requests", test.requests, f.Take())
				expect.Equal(t, "passes", []controller.Reason{controller.Drift}, f.passes)
				restored := f.configMap()
				expect.Equal(t, "data", map[string]string{"key": "one"}, restored.Data)
				expect.Equal(t, "label", "web", restored.Labels["app"])
				expect.Equal(t, "controlled", true, metav1.IsControlledBy(restored, f.owner))
				expect.Equal(t, "correction", []childv1alpha1.ChildName{"ConfigMap/web"}, f.status.LastCorrection.Children)
				f.drifted(1, 1)
			})
		})
	}
}

// TestApplyWithoutChangeIsNotCorrection: another client changes its own field twice within the
// second of the operator's apply, which could hide a change of the operator's fields. The apply
// shows that it did not.
func TestApplyWithoutChangeIsNotCorrection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))

		f.change(func(c *corev1.ConfigMap) { c.Data["theirs"] = "1" })
		f.change(func(c *corev1.ConfigMap) { c.Data["theirs"] = "2" })

		expect.Equal(t, "requests", []string{"patch configmaps/web"}, f.Take())
		expect.Equal(t, "data", map[string]string{"key": "one", "theirs": "2"}, f.configMap().Data)
		expect.Equal(t, "correction", (*childv1alpha1.Correction)(nil), f.status.LastCorrection)
		f.drifted(0, 0)
		f.pass()
		expect.Equal(t, "requests of another pass", []string(nil), f.Take())
	})
}

// TestChangeAfterOwnWriteIsDrift: another client changes a child while the pass that wrote the
// child is still going on.
func TestChangeAfterOwnWriteIsDrift(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		owner := cache.MetaObjectToName(f.owner)
		f.set.flights.Begin(owner)
		f.set.flights.Wrote(owner, f.configMap())
		f.change(func(c *corev1.ConfigMap) { c.Data["key"] = "theirs" })
		f.Settle()

		f.set.end(owner)
		f.Settle()

		expect.Equal(t, "passes", []controller.Reason{controller.Drift}, f.passes)
		expect.Equal(t, "data", map[string]string{"key": "one"}, f.configMap().Data)
	})
}

func TestUpdateIsNotCorrection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"), deployment("nginx:1"))

		f.desired[1] = deployment("nginx:2")
		f.owner.Generation++
		f.pass()

		expect.Equal(t, "requests", []string{"patch deployments/web"}, f.Take())
		expect.Equal(t, "passes", []controller.Reason{controller.SpecChange}, f.passes)
		expect.Equal(t, "correction", (*childv1alpha1.Correction)(nil), f.status.LastCorrection)
		f.drifted(0, 0)
	})
}

func TestChangedSecretValueIsRestored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, secret("s3cret"))
		secrets := f.kube.CoreV1().Secrets("ns")

		f.Act(func() error {
			found, err := secrets.Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			found.Data["password"] = []byte("theirs")
			_, err = secrets.Update(t.Context(), found, others)
			return err
		})
		first := f.Take()
		f.desired = []Desired{secret("rotated")}
		f.pass()

		expect.Equal(t, "requests after the change", []string{"patch secrets/web"}, first)
		expect.Equal(t, "requests for a new value", []string{"patch secrets/web"}, f.Take())
		digest := f.status.Applied[0].Digest
		f.desired = []Desired{secret("again")}
		f.pass()
		expect.Equal(t, "digest in the status, which says nothing of the value", digest, f.status.Applied[0].Digest)
	})
}

func always(*Observed) bool { return true }

// TestConditionallyRetainedChild: a child is written while stays returns false, and not created
// while stays returns true.
func TestConditionallyRetainedChild(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		f.desired = []Desired{RetainIf(configMap("two"), func(got *Observed) bool { return got == nil })}

		f.pass()
		expect.Equal(t, "requests for an existing child", []string{"patch configmaps/web"}, f.Take())
		f.Act(func() error {
			return f.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "web", metav1.DeleteOptions{})
		})

		expect.Equal(t, "requests for a missing child", []string(nil), f.Take())
	})
}

// TestRetainedChildIsNotWritten: neither a new desired state nor drift causes a write, and the
// record of the last apply is kept.
func TestRetainedChildIsNotWritten(t *testing.T) {
	tests := map[string]func(*family){
		"another desired state": func(f *family) { f.pass() },
		"drift":                 func(f *family) { f.change(func(c *corev1.ConfigMap) { c.Data["key"] = "theirs" }) },
		"a deletion": func(f *family) {
			f.Act(func() error {
				return f.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "web", metav1.DeleteOptions{})
			})
		},
		"a restart": func(f *family) { f.Stop(); f.start() },
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"))
				applied := f.status.Applied
				f.desired = []Desired{RetainIf(configMap("two"), always)}

				happens(f)
				requests := f.Take()
				f.desired = []Desired{configMap("two")}
				f.pass()

				expect.NoError(t, f.err)
				expect.Equal(t, "requests", []string(nil), requests)
				expect.Equal(t, "requests afterwards", []string{"patch configmaps/web"}, f.Take())
				expect.Equal(t, "number of children in the status", len(applied), len(f.status.Applied))
				expect.Equal(t, "data", map[string]string{"key": "two"}, f.configMap().Data)
			})
		})
	}
}

func TestMissingRetainedChildIsNotCreated(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, RetainIf(configMap("one"), always))

		f.start()

		expect.NoError(t, f.err)
		expect.Equal(t, "requests", []string(nil), f.Take())
		expect.Equal(t, "children in the state", 0, len(f.state.Children))
	})
}

func TestUndesiredChildIsDeleted(t *testing.T) {
	tests := map[string]func(*family){
		"known":             func(*family) {},
		"without its label": func(f *family) { f.desired = nil; f.change(func(c *corev1.ConfigMap) { c.Labels = nil }) },
		"unknown to the status": func(f *family) {
			f.status = childv1alpha1.ChildrenStatus{}
		},
		"after a restart": func(f *family) { f.Stop(); f.desired = nil; f.start() },
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"))

				happens(f)
				f.desired = nil
				f.pass()

				expect.NoError(t, f.err)
				if f.configMap() != nil {
					t.Error("the child is still there")
				}
				expect.Equal(t, "status", 0, len(f.status.Applied))
				f.forget()
				f.pass()
				expect.Equal(t, "requests of the next pass", []string(nil), f.Take())
			})
		})
	}
}

// TestRefusedDeletionOfChild: whatever admission answers to a deletion, the child stays a child until
// it is deleted.
func TestRefusedDeletionOfChild(t *testing.T) {
	tenants := schema.GroupResource{Resource: "tenants"}
	tests := map[string]error{
		"forbidden":           apierrors.NewForbidden(tenants, "web", errors.New("protected")),
		"bad request":         apierrors.NewBadRequest("protected"),
		"misses an object":    apierrors.NewNotFound(tenants, "one"),
		"404 without details": &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 404, Reason: metav1.StatusReasonNotFound}},
		"409 without details": &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 409, Reason: metav1.StatusReasonConflict}},
		"is overloaded":       apierrors.NewTooManyRequests("later", 1),
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFamily(t, configMap("one"))
				f.Refuse(func(request string) error {
					if strings.HasPrefix(request, "delete ") {
						return answer
					}
					return nil
				})
				f.desired = nil

				f.pass()

				if f.err == nil || len(f.status.Applied) != 1 || f.configMap() == nil {
					t.Errorf("error %v, %d children in the status; want an error and the child", f.err, len(f.status.Applied))
				}
				f.Refuse(func(string) error { return nil })
				f.pass()
				expect.NoError(t, f.err)
				if f.configMap() != nil {
					t.Error("the child is still there")
				}
			})
		})
	}
}

func TestImmutableFieldIsTerminalAndNamed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, deployment("nginx:1"))
		selector := field.NewPath("spec", "selector")
		f.Refuse(func(request string) error {
			if request != "patch deployments/web" {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web",
				field.ErrorList{field.Invalid(selector, map[string]string{"app": "web: 1"}, "field is immutable")})
		})

		f.desired = []Desired{deployment("nginx:2")}
		f.pass()

		const want = `Deployment "web" was refused: spec.selector: field is immutable`
		if f.err == nil || f.err.Error() != want || !controller.IsTerminal(f.err) {
			t.Errorf("error is %v, want a terminal %q", f.err, want)
		}
		expect.Equal(t, "number of children in the status", 1, len(f.status.Applied))
		// A policy may be the cause, and no event reports a change of the policy.
		expect.Equal(t, "time of the next pass", conflictRetry, f.state.RetryAfter)
	})
}

func TestTransientErrorDoesNotBlockOtherChildren(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("one"), deployment("nginx:1"))
		f.Refuse(func(request string) error {
			if request == "patch configmaps/web" {
				return apierrors.NewServiceUnavailable("busy")
			}
			return nil
		})

		f.start()
		first := applied(f)
		f.Refuse(nil)
		f.Wait(10 * time.Second)

		expect.Equal(t, "children at first", []string{"deployments"}, first)
		expect.NoError(t, f.err)
		expect.Equal(t, "data in the end", map[string]string{"key": "one"}, f.configMap().Data)
	})
}

func TestChildIsRecreatedAfterItsFinalizers(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		f.change(func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/theirs"} })
		f.desired = nil
		f.pass()
		f.desired = []Desired{configMap("two")}
		f.pass()
		waiting := f.state.Waiting

		f.change(func(c *corev1.ConfigMap) { c.Finalizers = nil })

		expect.Equal(t, "waiting", []string{`ConfigMap "web" is being deleted`}, waiting)
		if created := f.configMap(); created == nil || created.Data["key"] != "two" {
			t.Errorf("got %v, want the new child", created)
		}
	})
}

func TestUnwritableChildStaysInState(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		f.Refuse(func(string) error { return apierrors.NewServiceUnavailable("busy") })

		f.desired = []Desired{configMap("two")}
		f.pass()

		if f.err == nil {
			t.Error("the child was written")
		}
		expect.Equal(t, "name", "web", f.state.Of("ConfigMap", "web").Name)
	})
}

func TestDuplicateChildrenAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("one"), configMap("two"))

		f.start()

		const want = "ConfigMap/web: two desired children have this kind and name"
		if !controller.IsTerminal(f.err) || f.err.Error() != want {
			t.Errorf("error is %v, want a terminal %q", f.err, want)
		}
		expect.Equal(t, "requests", []string(nil), f.Take())
	})
}

func TestDuplicateKindNamesAreRefused(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ConfigMap"}
	set := NewSet(ownerKind, ManagedKind{gvk: gvk}, ManagedKind{gvk: corev1.SchemeGroupVersion.WithKind("ConfigMap")})

	err := set.Watch(&family{})

	if err == nil || err.Error() != "children of kind ConfigMap: the set has two kinds of this name" {
		t.Errorf("error is %v", err)
	}
}

// TestCustomResourceIsHealthyWhenReady: a new child of such a kind is not healthy.
func TestCustomResourceIsHealthyWhenReady(t *testing.T) {
	kube := kubefake.NewClientset()
	gvk := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	own, err := WatchedBy(nil, gvk, kube.CoreV1().ConfigMaps)
	expect.NoError(t, err)

	got := own.observe(newMap("new")).Health.Status

	expect.Equal(t, "health", kstatus.InProgressStatus, got)
}

func TestHas(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"))
		has := func(status *childv1alpha1.ChildrenStatus, child Desired) bool {
			return f.set.Has(f.owner, status, child)
		}

		expect.Equal(t, "applied before", true, has(&f.status, configMap("two")))
		expect.Equal(t, "cached, and missing in the status", true, has(&childv1alpha1.ChildrenStatus{}, configMap("two")))
		expect.Equal(t, "never applied", false, has(&f.status, deployment("nginx:1")))
		f.owner.UID = "successor"
		expect.Equal(t, "of a deleted owner", false, has(&childv1alpha1.ChildrenStatus{}, configMap("two")))
	})
}

func TestVerdictOnSomeChildren(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("one"), deployment("nginx:1"))
		f.Refuse(func(request string) error {
			if request == "patch deployments/web" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web",
					field.ErrorList{field.Required(field.NewPath("spec", "template"), "")})
			}
			return nil
		})

		f.start()

		expect.Equal(t, "the ConfigMap", Verdict{kstatus.CurrentStatus, "Healthy", "All 1 children are as desired and healthy"},
			f.state.VerdictOn(configMap("one")))
		expect.Equal(t, "the Deployment", Verdict{kstatus.FailedStatus, "Refused", `Deployment "web" was refused: spec.template: Required value`},
			f.state.VerdictOn(deployment("nginx:1")))
		expect.Equal(t, "a child that was not given", Verdict{kstatus.InProgressStatus, "Progressing", `Secret "web" is not applied yet`},
			f.state.VerdictOn(secret("x")))
	})
}

// TestEqualKeysOfChild: equal keys of a list count once, and the state says so. If the items mean
// more than one of them, the child is refused, and the remaining children are written.
func TestEqualKeysOfChild(t *testing.T) {
	pods := func(container *corev1ac.ContainerApplyConfiguration) Desired {
		desired := deployment("nginx:1").(*appsv1ac.DeploymentApplyConfiguration)
		desired.Spec.Template.Spec.Containers[0].Env = container.Env
		desired.Spec.Template.Spec.Containers[0].Ports = container.Ports
		return desired
	}
	variable := func(value string) *corev1ac.EnvVarApplyConfiguration {
		return corev1ac.EnvVar().WithName("A").WithValue(value)
	}
	port := func(name string) *corev1ac.ContainerPortApplyConfiguration {
		return corev1ac.ContainerPort().WithContainerPort(80).WithName(name)
	}
	t.Run("the last one counts", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			f := newFamily(t, pods(corev1ac.Container().WithEnv(variable("1"), variable("2"))))

			const want = `Deployment "web": spec.template.spec.containers[web].env: 2 items have the key "A", and only the last one counts`
			expect.Equal(t, "notes", []string{want}, f.state.Notes)
			if f.err != nil {
				t.Error(f.err)
			}
		})
	})
	t.Run("two names for one port", func(t *testing.T) {
		inBubble(t, func(t *testing.T) {
			f := emptyFamily(t, pods(corev1ac.Container().WithPorts(port("a"), port("b"))), configMap("one"))

			f.start()

			const want = `Deployment "web" was refused: spec.template.spec.containers[web].ports: 2 items have the key "80/TCP": they differ in name, ` +
				`and server-side apply keeps one item for each key: remove one of them`
			if f.err == nil || f.err.Error() != want || !controller.IsTerminal(f.err) {
				t.Errorf("error is %v, want a terminal %q", f.err, want)
			}
			expect.Equal(t, "children", []string{"configmaps"}, applied(f))
		})
	})
}

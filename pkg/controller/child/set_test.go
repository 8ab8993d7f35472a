// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
)

var (
	// The owner of the children is a Secret, which is as good as any object.
	ownerKind = corev1.SchemeGroupVersion.WithKind("Secret")
	others    = metav1.UpdateOptions{FieldManager: "others"}
)

// family is an owner and its children: a queue that makes one Ensure for each key, with
// the status that the one before left.
type family struct {
	*controllertest.World

	t      *testing.T
	kube   *kubefake.Clientset
	owner  *corev1.Secret
	status childv1alpha1.ChildrenStatus
	// desired are the children that the next Ensure is given.
	desired []Desired
	// passes are the reasons of the passes since the last look.
	passes []controller.Reason
	state  State
	err    error

	queue  *controller.Controller
	synced []controller.NamedSync
}

// Queue implements Loop.
func (f *family) Queue() *controller.Controller { return f.queue }

// Await implements Loop.
func (f *family) Await(synced ...controller.NamedSync) { f.synced = append(f.synced, synced...) }

// newFamily returns a family whose children exist.
func newFamily(t *testing.T, desired ...Desired) *family {
	t.Helper()
	f := emptyFamily(t, desired...)
	f.start()
	if f.err != nil {
		t.Fatal(f.err)
	}
	f.forget()
	return f
}

func emptyFamily(t *testing.T, desired ...Desired) *family {
	t.Helper()
	kube := kubefake.NewClientset()
	return &family{
		World: controllertest.NewWorld(t, kube), t: t, kube: kube, desired: desired,
		owner: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "owner"}},
	}
}

// start begins to keep the children, as a new process does.
func (f *family) start() {
	f.t.Helper()
	maps, err1 := Of(f, f.kube, corev1.SchemeGroupVersion.WithKind("ConfigMap"), f.kube.CoreV1().ConfigMaps)
	secrets, err2 := Of(f, f.kube, corev1.SchemeGroupVersion.WithKind("Secret"), f.kube.CoreV1().Secrets)
	deployments, err3 := Of(f, f.kube, appsv1.SchemeGroupVersion.WithKind("Deployment"), f.kube.AppsV1().Deployments)
	set := NewSet(ownerKind, maps, secrets, deployments)
	f.queue = controller.New(controller.ReconcilerFunc(func(ctx context.Context, key cache.ObjectName, why controller.Reason) (controller.Result, error) {
		if key.Name != f.owner.Name {
			return controller.Result{}, nil
		}
		f.passes = append(f.passes, why)
		f.state, f.err = set.Ensure(ctx, f.owner, &f.status, time.Now(), f.desired...)
		return controller.Result{RequeueAfter: f.state.RetryAfter}, f.err
	}), controller.Options{Name: "family"})
	f.synced = nil
	must(f.t, errors.Join(err1, err2, err3, set.Watch(f)))
	f.queue.Enqueue(cache.NewObjectName("ns", "web"), controller.SpecChange)
	f.Run(func(stop, lead context.Context) error { return f.queue.Run(stop, lead, f.synced...) })
}

// forget drops what was seen so far.
func (f *family) forget() {
	f.Take()
	f.passes = nil
}

// pass asks for a pass over the owner.
func (f *family) pass() {
	f.queue.Enqueue(cache.NewObjectName("ns", "web"), controller.SpecChange)
	f.Settle()
}

func (f *family) configMap() *corev1.ConfigMap {
	f.t.Helper()
	var found *corev1.ConfigMap
	f.Act(func() (err error) {
		found, err = f.kube.CoreV1().ConfigMaps("ns").Get(context.Background(), "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			found, err = nil, nil
		}
		return err
	})
	return found
}

// change has others change the ConfigMap.
func (f *family) change(change func(*corev1.ConfigMap)) {
	f.t.Helper()
	found := f.configMap()
	change(found)
	f.Act(func() error {
		_, err := f.kube.CoreV1().ConfigMaps("ns").Update(context.Background(), found, others)
		return err
	})
}

// remove has others delete the ConfigMap, if it exists.
func (f *family) remove() {
	f.t.Helper()
	f.Act(func() error {
		err := f.kube.CoreV1().ConfigMaps("ns").Delete(context.Background(), "web", metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

func (f *family) create(object *corev1.ConfigMap) {
	f.t.Helper()
	f.Act(func() error {
		_, err := f.kube.CoreV1().ConfigMaps("ns").Create(context.Background(), object, metav1.CreateOptions{FieldManager: "others"})
		return err
	})
}

func configMap(value string) Desired {
	return corev1ac.ConfigMap("web", "").WithLabels(map[string]string{"app": "web"}).WithData(map[string]string{"key": value})
}

func deployment(image string) Desired {
	labels := map[string]string{"app": "web"}
	return appsv1ac.Deployment("web", "").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(1).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).
			WithSpec(corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName("web").WithImage(image)))))
}

func secret(value string) Desired {
	return corev1ac.Secret("web", "").WithStringData(map[string]string{"password": value})
}

// inBubble runs a test in the time of its own.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func TestEnsureCreatesChildrenOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, configMap("one"), deployment("nginx:1"))

		f.start()

		equal(t, "requests", []string{"patch configmaps/web", "patch deployments/web"}, f.Take())
		equal(t, "passes", []controller.Reason{controller.SpecChange}, f.passes)
		created := f.configMap()
		equal(t, "labels", map[string]string{"app": "web", ManagedByLabel: FieldManager}, created.Labels)
		equal(t, "owner", []metav1.OwnerReference{Reference(f.owner, "v1", "Secret")}, created.OwnerReferences)
		equal(t, "number of children in the status", 2, len(f.status.Applied))
	})
}

func TestUnchangedChildrenCostNothing(t *testing.T) {
	tests := map[string]func(*family){
		"another pass": (*family).pass,
		"a restart":    func(f *family) { f.Stop(); f.start() },
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

				equal(t, "requests", []string(nil), f.Take())
				must(t, f.err)
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
		"a removed label of ours": {
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

				equal(t, "requests", test.requests, f.Take())
				equal(t, "passes", []controller.Reason{controller.Drift}, f.passes)
				restored := f.configMap()
				equal(t, "data", map[string]string{"key": "one"}, restored.Data)
				equal(t, "label", "web", restored.Labels["app"])
				equal(t, "controlled", true, metav1.IsControlledBy(restored, f.owner))
				equal(t, "correction", []childv1alpha1.ChildName{"ConfigMap/web"}, f.status.LastCorrection.Children)
			})
		})
	}
}

func TestUpdateIsNoCorrection(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, configMap("one"), deployment("nginx:1"))

		f.desired[1] = deployment("nginx:2")
		f.pass()

		equal(t, "requests", []string{"patch deployments/web"}, f.Take())
		equal(t, "passes", []controller.Reason{controller.SpecChange}, f.passes)
		equal(t, "correction", (*childv1alpha1.Correction)(nil), f.status.LastCorrection)
	})
}

func TestSecretValueThatOthersChangedIsRestored(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, secret("s3cret"))
		secrets := f.kube.CoreV1().Secrets("ns")

		f.Act(func() error {
			found, err := secrets.Get(t.Context(), "web", metav1.GetOptions{})
			must(t, err)
			found.Data["password"] = []byte("theirs")
			_, err = secrets.Update(t.Context(), found, others)
			return err
		})
		first := f.Take()
		f.desired = []Desired{secret("rotated")}
		f.pass()

		equal(t, "requests after the change", []string{"patch secrets/web"}, first)
		equal(t, "requests for a new value", []string{"patch secrets/web"}, f.Take())
		digest := f.status.Applied[0].Digest
		f.desired = []Desired{secret("again")}
		f.pass()
		equal(t, "digest in the status, which says nothing of the value", digest, f.status.Applied[0].Digest)
	})
}

func TestCreateOnceChildIsNeverChanged(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFamily(t, Once(secret("first")))

		f.desired = []Desired{Once(secret("second"))}
		f.pass()
		f.Stop()
		f.start()

		equal(t, "requests", []string(nil), f.Take())
		equal(t, "status", []childv1alpha1.AppliedChild{{Kind: "Secret", Name: "web", UID: string(f.state.Of("Secret", "web").UID)}}, f.status.Applied)
	})
}

func TestCreateOnceChildOfAUserIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t, Once(configMap("generated")))
		f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"key": "theirs"}})

		f.start()

		must(t, f.err)
		equal(t, "data", map[string]string{"key": "theirs"}, f.configMap().Data)
		equal(t, "status", []childv1alpha1.AppliedChild(nil), f.status.Applied)
		f.desired = nil
		f.pass()
		equal(t, "data, when no longer desired", map[string]string{"key": "theirs"}, f.configMap().Data)
	})
}

func TestStrangersAreRefused(t *testing.T) {
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
				equal(t, "data", map[string]string{"key": "theirs"}, f.configMap().Data)
				equal(t, "the other child", []string{"deployments"}, applied(f))
				f.Act(func() error {
					return f.kube.CoreV1().ConfigMaps("ns").Delete(t.Context(), "web", metav1.DeleteOptions{})
				})
				f.Wait(2 * conflictRetry)
				must(t, f.err)
				equal(t, "data once it is gone", map[string]string{"key": "one"}, f.configMap().Data)
			})
		})
	}
}

// applied are the resources in the status.
func applied(f *family) (resources []string) {
	for _, record := range f.status.Applied {
		resources = append(resources, strings.ToLower(record.Kind)+"s")
	}
	return resources
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

func TestChildOfAPredecessorIsAwaited(t *testing.T) {
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

				must(t, err)
				equal(t, "waiting", []string{`ConfigMap "web" is being deleted`}, waiting)
				equal(t, "the predecessor's child", 0, len(before.Data))
				equal(t, "data afterwards", map[string]string{"key": "one"}, f.configMap().Data)
			})
		})
	}
}

func TestChildThatIsNoLongerDesiredIsDeleted(t *testing.T) {
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

				must(t, f.err)
				if f.configMap() != nil {
					t.Error("the child is still there")
				}
				equal(t, "status", 0, len(f.status.Applied))
				f.forget()
				f.pass()
				equal(t, "requests of the next pass", []string(nil), f.Take())
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
		equal(t, "number of children in the status", 1, len(f.status.Applied))
	})
}

func TestTransientErrorIsRetriedAndTheOtherChildrenAreWritten(t *testing.T) {
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

		equal(t, "children at first", []string{"deployments"}, first)
		must(t, f.err)
		equal(t, "data in the end", map[string]string{"key": "one"}, f.configMap().Data)
	})
}

func TestApplyFieldsLeavesTheRest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := emptyFamily(t)
		f.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Data: map[string]string{"key": "theirs"}})
		client := f.kube.CoreV1().ConfigMaps("ns")
		fields := corev1ac.ConfigMap("web", "ns").WithAnnotations(map[string]string{"example.com/hash": "1"})

		applied, err := ApplyFields(t.Context(), client, "reloader", f.configMap().UID, fields)
		_, otherErr := ApplyFields(t.Context(), client, "reloader", "another", fields)

		must(t, err)
		equal(t, "data", map[string]string{"key": "theirs"}, applied.Data)
		equal(t, "annotations", map[string]string{"example.com/hash": "1"}, applied.Annotations)
		if !apierrors.IsConflict(otherErr) {
			t.Errorf("apply to another object: %v", otherErr)
		}
	})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// randomChanges is the number of changes in TestRandomChangesConverge, one right after the other.
const randomChanges = 80

// TestRandomChangesConverge changes DemoApps, their objects and their records at random, faster
// than the operator reconciles. It then asserts that the final state matches the specs. Most of its
// time passes in recreations, which wait for deletions.
func TestRandomChangesConverge(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	names := []string{"one", "two", "three"}
	for _, name := range names {
		ns.Create(apps.Named(name))
	}
	for range randomChanges {
		name := names[random.IntN(len(names))]
		changes[random.IntN(len(changes))](t, ns, name, random)
	}
	for _, name := range names {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) {
			spec.WaitFor, spec.Message, spec.ReplicaCount = "", "Final words of "+name, ptr.To[int32](1)
		})
	}
	for _, name := range names {
		app := ns.AwaitReady(name)
		objects := ns.Objects(name)
		if len(objects.All()) != 4 {
			t.Fatalf("%s: the objects are %v", name, objects.All())
		}
		for kind, object := range objects.All() {
			if owner := metav1.GetControllerOf(object); owner == nil || owner.UID != app.UID {
				t.Errorf("%s: the %s belongs to %+v", name, kind, owner)
			}
		}
		if got := objects.ConfigMap.Data["index.html"]; !strings.Contains(got, "Final words of "+name) {
			t.Errorf("%s: index.html is %q", name, got)
		}
		if got, want := objects.Service.Spec.Ports[0].Port, app.Spec.Service.Port; got != want {
			t.Errorf("%s: the port is %d, want %d", name, got, want)
		}
		if got := string(objects.Secret.Data["apiKey"]); got != "key-of-"+name {
			t.Errorf("%s: apiKey is %q", name, got)
		}
	}
	ns.AwaitQuiet(quiet)
	for _, name := range names {
		records, app := ns.Records(name), ns.AwaitReady(name)
		if last := records[len(records)-1]; last.Status != "deployed" || int64(last.Revision) != apps.Revision(app) {
			t.Errorf("%s: records %v, the status says revision %d", name, records, apps.Revision(app))
		}
		for _, record := range records[:len(records)-1] {
			if record.Status == "deployed" || strings.HasPrefix(record.Status, "pending-") {
				t.Errorf("%s: records %v", name, records)
			}
		}
	}
}

// changes are the random changes. An object that a change is about may be absent.
var changes = []func(t *testing.T, ns *apps.Namespace, name string, random *rand.Rand){
	func(_ *testing.T, ns *apps.Namespace, name string, random *rand.Rand) {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) { spec.Message = fmt.Sprintf("Message %d", random.Int()) })
	},
	func(_ *testing.T, ns *apps.Namespace, name string, random *rand.Rand) {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) {
			spec.ReplicaCount, spec.Service.Port = ptr.To(random.Int32N(3)), 80+random.Int32N(10)
		})
	},
	func(_ *testing.T, ns *apps.Namespace, name string, _ *rand.Rand) {
		ns.Change(name, func(spec *v1alpha1.DemoAppSpec) {
			if spec.WaitFor == "" && name != "one" {
				spec.WaitFor = "one"
			} else {
				spec.WaitFor = ""
			}
		})
	},
	func(t *testing.T, ns *apps.Namespace, name string, random *rand.Rand) {
		t.Helper()
		client, change := randomObject(ns, random)
		patchIfThere(t, client, name, change)
	},
	func(t *testing.T, ns *apps.Namespace, name string, random *rand.Rand) {
		t.Helper()
		client, _ := randomObject(ns, random)
		patchIfThere(t, client, name, `{"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}`)
	},
	func(t *testing.T, ns *apps.Namespace, name string, random *rand.Rand) {
		t.Helper()
		client, _ := randomObject(ns, random)
		mayBeAbsent(t, client.Delete(t.Context(), name, metav1.DeleteOptions{}))
	},
	func(t *testing.T, ns *apps.Namespace, name string, _ *rand.Rand) {
		t.Helper()
		records := ns.Records(name)
		if len(records) == 0 {
			return
		}
		last := records[len(records)-1].Secret.Name
		mayBeAbsent(t, shared.Client.CoreV1().Secrets(ns.Name).Delete(t.Context(), last, metav1.DeleteOptions{}))
	},
	func(_ *testing.T, ns *apps.Namespace, name string, _ *rand.Rand) {
		ns.Delete(name)
		ns.AwaitGone(name)
		ns.Create(apps.Named(name))
	},
}

// randomObject returns a client for one of the kinds of a release, and a change of its objects.
func randomObject(ns *apps.Namespace, random *rand.Rand) (client dynamic.ResourceInterface, change string) {
	owned := ownedKinds[random.IntN(len(ownedKinds))]
	return shared.Dynamic.Resource(owned.resource).Namespace(ns.Name), owned.change
}

func patchIfThere(t *testing.T, client dynamic.ResourceInterface, name, change string) {
	t.Helper()
	_, err := client.Patch(t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{})
	mayBeAbsent(t, err)
}

func mayBeAbsent(t *testing.T, err error) {
	t.Helper()
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
}

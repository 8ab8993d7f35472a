// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

// deleteWith deletes the PostgreSQL, which has the deletion policy Delete, with these finalizers in
// addition. It returns the events of the end of the deletion.
func (w *world) deleteWith(finalizers ...string) []string {
	w.t.Helper()
	w.change(func(p *databasev1.PostgreSQL) {
		p.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete
		p.Finalizers = append(p.Finalizers, finalizers...)
	})
	w.Take()
	controllertest.Delete(w.World, w.client.DatabaseV1().PostgreSQLs("ns").Delete, "db")
	w.Wait(5 * time.Second)
	return slices.DeleteFunc(w.Take(), func(request string) bool { return !strings.HasPrefix(request, "event ") })
}

// claims returns the names of the claims.
func (w *world) claims() []string {
	w.t.Helper()
	names := []string{}
	w.Act(func() error {
		found, err := w.kube.CoreV1().PersistentVolumeClaims("ns").List(context.Background(), metav1.ListOptions{})
		for _, claim := range found.Items {
			names = append(names, claim.Name)
		}
		return err
	})
	slices.Sort(names)
	return names
}

// stripOwners removes the owner references of the children, as the garbage collector does.
func (w *world) stripOwners() {
	w.t.Helper()
	w.Act(func() error {
		ctx, update := context.Background(), metav1.UpdateOptions{FieldManager: "kube-controller-manager"}
		set, err1 := w.kube.AppsV1().StatefulSets("ns").Get(ctx, "db", metav1.GetOptions{})
		set.OwnerReferences = nil
		_, err2 := w.kube.AppsV1().StatefulSets("ns").Update(ctx, set, update)
		budget, err3 := w.kube.PolicyV1().PodDisruptionBudgets("ns").Get(ctx, "db", metav1.GetOptions{})
		budget.OwnerReferences = nil
		_, err4 := w.kube.PolicyV1().PodDisruptionBudgets("ns").Update(ctx, budget, update)
		scripts, err5 := w.kube.CoreV1().ConfigMaps("ns").Get(ctx, "db-scripts", metav1.GetOptions{})
		scripts.OwnerReferences = nil
		_, err6 := w.kube.CoreV1().ConfigMaps("ns").Update(ctx, scripts, update)
		errs := []error{err1, err2, err3, err4, err5, err6}
		for _, name := range []string{"db", "db-read", "db-headless"} {
			service, err := w.kube.CoreV1().Services("ns").Get(ctx, name, metav1.GetOptions{})
			service.OwnerReferences = nil
			_, err2 := w.kube.CoreV1().Services("ns").Update(ctx, service, update)
			errs = append(errs, err, err2)
		}
		return errors.Join(errs...)
	})
}

var allClaims = []string{"data-db-0", "data-db-1", "data-db-2"}

// TestOrphanKeepsData: a deletion with the propagation policy Orphan keeps the data, whatever the
// deletion policy says, also if no operator runs until the garbage collector is done.
func TestOrphanKeepsData(t *testing.T) {
	tests := map[string]func(w *world) []string{
		"the operator runs": func(w *world) []string { return w.deleteWith(metav1.FinalizerOrphanDependents) },
		"the garbage collector was faster": func(w *world) []string {
			w.change(func(p *databasev1.PostgreSQL) { p.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
			w.Stop()
			w.Act(func() error {
				return w.client.DatabaseV1().PostgreSQLs("ns").Delete(w.t.Context(), "db", metav1.DeleteOptions{})
			})
			w.stripOwners()
			w.Take()
			w.start()
			w.Wait(5 * time.Second)
			return slices.DeleteFunc(w.Take(), func(request string) bool { return !strings.HasPrefix(request, "event ") })
		},
	}
	for name, remove := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				events := remove(w)

				expect.Equal(w.t, "events", []string{"event Normal Orphaned"}, events)
				expect.Equal(w.t, "claims", allClaims, w.claims())
				if w.secret() == nil {
					t.Error("the Secret was deleted")
				}
			})
		})
	}
}

// TestOwnersWrittenAfterGarbageCollector: a pass that ran while the garbage collector removed the
// owner references has written one again. The child loses it before the owner is gone.
func TestOwnersWrittenAfterGarbageCollector(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Refuse(func(request string) error {
			if request == "patch postgresqls/db" {
				return apierrors.NewForbidden(databasev1.Resource("postgresqls"), "db", errors.New("policy"))
			}
			return nil
		})
		w.deleteWith(metav1.FinalizerOrphanDependents)
		w.change(func(p *databasev1.PostgreSQL) {
			p.Finalizers = slices.DeleteFunc(p.Finalizers, func(finalizer string) bool { return finalizer == metav1.FinalizerOrphanDependents })
		})
		w.Refuse(func(string) error { return nil })
		w.Wait(time.Minute)

		expect.Equal(w.t, "owners of the StatefulSet", 0, len(w.statefulSet().OwnerReferences))
		expect.Equal(w.t, "claims", allClaims, w.claims())
	})
}

// TestDeletionOfDefinitionKeepsData: nobody decided on the data when the CRD is deleted.
func TestDeletionOfDefinitionKeepsData(t *testing.T) {
	for name, resources := range map[string][]*metav1.APIResourceList{
		"being deleted": servedWith("delete", "patch"), "gone": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.kube.Resources = resources

				events := w.deleteWith()

				expect.Equal(w.t, "events", []string{"event Normal DataRetained"}, events)
				expect.Equal(w.t, "claims", allClaims, w.claims())
				if w.secret() == nil {
					t.Error("the Secret was deleted")
				}
			})
		})
	}
}

// TestDeletionOfParentsDefinitionKeepsData: the garbage collector deletes a PostgreSQL after the CRD of
// its owner, and nobody decided on the data. While the CRD exists, the owner was deleted by a user.
func TestDeletionOfParentsDefinitionKeepsData(t *testing.T) {
	stacks := func(verbs ...string) []*metav1.APIResourceList {
		return append(servedWith("create", "delete", "patch"), &metav1.APIResourceList{
			GroupVersion: "app.example.com/v1", APIResources: []metav1.APIResource{{Name: "appstacks", Kind: "AppStack", Verbs: verbs}},
		})
	}
	tests := map[string]struct {
		resources []*metav1.APIResourceList
		event     string
		claims    []string
	}{
		"the owner was deleted":     {stacks("create", "delete", "patch"), "DataDeleted", []string{}},
		"the CRD is being deleted":  {stacks("delete", "patch"), "DataRetained", allClaims},
		"the CRD is gone":           {servedWith("create", "delete", "patch"), "DataRetained", allClaims},
		"another kind of the group": {append(servedWith("create"), &metav1.APIResourceList{GroupVersion: "app.example.com/v1"}), "DataRetained", allClaims},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.kube.Resources = test.resources
				w.change(func(p *databasev1.PostgreSQL) {
					p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "app.example.com/v1", Kind: "AppStack", Name: "shop", UID: "shop"}}
				})

				events := w.deleteWith()

				expect.Equal(w.t, "events", []string{"event Normal " + test.event}, events)
				expect.Equal(w.t, "claims", test.claims, w.claims())
			})
		})
	}
}

// TestDeletionOfUsedClaimsOnly: the label of a PostgreSQL on a claim does not show that the PostgreSQL
// ran on it.
func TestDeletionOfUsedClaimsOnly(t *testing.T) {
	tests := map[string]struct {
		prepare func(w *world)
		kept    []string
		event   string
	}{
		"a claim of a server that never existed": {
			func(w *world) { w.createClaim("data-db-4") }, []string{"data-db-4"}, "DataDeleted",
		},
		"a claim of a server that was removed": {
			func(w *world) { w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(1)) }) }, []string{}, "DataDeleted",
		},
		"a claim of a removed server that was replaced": {
			func(w *world) {
				w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(1)) })
				controllertest.Delete(w.World, w.kube.CoreV1().PersistentVolumeClaims("ns").Delete, "data-db-2")
				w.createClaim("data-db-2")
			}, []string{"data-db-2"}, "DataDeleted",
		},
		"a Secret for another owner": {
			func(w *world) {
				secret := w.secret()
				secret.Labels[databasev1.LabelPostgreSQL] = "other"
				controllertest.Update(w.World, w.kube.CoreV1().Secrets("ns").Update, secret)
			}, []string{}, "VolumesDeleted",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				test.prepare(w)

				events := w.deleteWith()

				expect.Equal(w.t, "events", []string{"event Normal " + test.event}, events)
				expect.Equal(w.t, "claims", test.kept, w.claims())
			})
		})
	}
}

// TestDeletionAfterNoRun: a PostgreSQL that never ran deletes no claim, and only a Secret that was
// created for it.
func TestDeletionAfterNoRun(t *testing.T) {
	tests := map[string]struct {
		prepare func(w *world)
		secret  bool
	}{
		"the Secret belongs to another client": {func(w *world) {
			w.createSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Data: map[string][]byte{"token": []byte("theirs")}})
			w.createClaim("data-db-0")
		}, true},
		"the data has another version": {func(w *world) {
			w.createSecret(&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Annotations: map[string]string{databasev1.AnnotationCreatedFor: "a predecessor"},
					Labels: map[string]string{databasev1.LabelPostgreSQL: "db", child.ManagedByLabel: child.FieldManager},
				},
				Data: map[string][]byte{databasev1.KeyPassword: []byte("theirs")},
			})
			w.createClaim("data-db-0")
			w.Refuse(func(request string) error {
				if strings.Contains(request, "statefulsets/db") {
					return apierrors.NewForbidden(corev1.Resource("statefulsets"), "db", errors.New("quota"))
				}
				return nil
			})
		}, true},
		"the StatefulSet is refused": {func(w *world) {
			w.Refuse(func(request string) error {
				if strings.Contains(request, "statefulsets/db") {
					return apierrors.NewForbidden(corev1.Resource("statefulsets"), "db", errors.New("quota"))
				}
				return nil
			})
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				test.prepare(w)
				w.create(func(*databasev1.PostgreSQL) {})
				before := w.claims()

				events := w.deleteWith()

				expect.Equal(t, "events", []string{"event Normal DataRetained"}, events)
				expect.Equal(t, "claims", before, w.claims())
				expect.Equal(t, "the Secret exists", test.secret, w.secret() != nil)
			})
		})
	}
}

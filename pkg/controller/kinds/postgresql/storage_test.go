// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

// TestMarkOfDataOutlivesItsVolume: by the mark, an empty primary knows that it must not initialize
// a database.
func TestMarkOfDataOutlivesItsVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		marks := map[string]string{}
		note := func(when string) {
			scripts, err := w.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "db-scripts", metav1.GetOptions{})
			expect.NoError(t, err)
			marks[when] = scripts.Data["initialized"]
		}

		w.create(func(*databasev1.PostgreSQL) {})
		note("created")
		w.makeServerReady(0)
		note("ready")
		controllertest.Delete(w.World, w.kube.CoreV1().PersistentVolumeClaims("ns").Delete, "data-db-0")
		w.setPod(0, corev1.ConditionFalse)
		w.Stop()
		w.start()
		note("volume lost")
		expect.Equal(t, "marks", map[string]string{"created": "", "ready": "true", "volume lost": "true"}, marks)
	})
}

// TestVolumesOlderThanDatabaseMayHaveData: the database of a deleted PostgreSQL is in the volumes
// of standbys, too.
func TestVolumesOlderThanDatabaseMayHaveData(t *testing.T) {
	tests := map[string]struct {
		claim string
		older bool
		mark  string
	}{
		"older, of a standby":   {"data-db-1", true, "true"},
		"younger, of a standby": {"data-db-1", false, ""},
		"of the primary":        {"data-db-0", true, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createSecret(&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"password": []byte("theirs")}})
				steps := []func(){func() { w.createClaim(test.claim) }, func() { w.create(func(*databasev1.PostgreSQL) {}) }}
				if !test.older {
					steps[0], steps[1] = steps[1], steps[0]
				}

				steps[0]()
				w.Wait(time.Minute)
				steps[1]()

				scripts, err := w.kube.CoreV1().ConfigMaps("ns").Get(t.Context(), "db-scripts", metav1.GetOptions{})
				expect.NoError(t, err)
				expect.Equal(t, "mark", test.mark, scripts.Data["initialized"])
			})
		})
	}
}

// createClaim creates a claim of a server.
func (w *world) createClaim(name string) {
	w.t.Helper()
	w.Act(func() error {
		_, err := w.kube.CoreV1().PersistentVolumeClaims("ns").Create(context.Background(), &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{databasev1.LabelPostgreSQL: "db"},
		}}, metav1.CreateOptions{})
		return err
	})
}

func TestRecreatedDatabaseFindsItsDataAndPassword(t *testing.T) {
	inWorld(t, func(w *world) {
		before := w.secret()
		w.remove()
		expect.Equal(w.t, "requests of the deletion", []string{"patch postgresqls/db", "event Normal DataRetained"}, w.Take())

		w.create(func(*databasev1.PostgreSQL) {})

		expect.Equal(w.t, "requests", append([]string{created[0]}, created[2:]...), w.Take())
		expect.Equal(w.t, "Secret", before, w.secret())
		w.makeServersReady()
		expect.Equal(w.t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

func TestDeletionPolicyDelete(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
		w.Take()

		w.remove()

		deleted := map[string]bool{}
		for _, request := range w.Take() {
			deleted[request] = true
		}
		expect.Equal(w.t, "requests", map[string]bool{
			"delete persistentvolumeclaims/data-db-0": true, "delete persistentvolumeclaims/data-db-1": true,
			"delete persistentvolumeclaims/data-db-2": true, "delete secrets/db-credentials": true,
			"get resource/":        true, // Discovery of the CRD.
			"patch postgresqls/db": true, "event Normal DataDeleted": true,
		}, deleted)
		expect.Equal(w.t, "Secret", (*corev1.Secret)(nil), w.secret())
	})
}

func TestFailedDeletionIsReported(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
		w.Refuse(func(request string) error {
			if request == "delete secrets/db-credentials" {
				return apierrors.NewForbidden(corev1.Resource("secrets"), "db-credentials", errors.New("policy"))
			}
			return nil
		})

		controllertest.Delete(w.World, w.client.DatabaseV1().PostgreSQLs("ns").Delete, "db")
		w.Wait(5 * time.Second)

		message := w.database().Status.Conditions
		if text, err := json.Marshal(message); err != nil || !strings.Contains(string(text), `Deletion waits: delete Secret \"db-credentials\"`) {
			t.Errorf("conditions are %s, %v", text, err)
		}
	})
}

func TestMajorVersionChangeIsRefused(t *testing.T) {
	const message = "spec.version: the volumes hold data of version 16, on which version 17 cannot start: set spec.version to 16, or dump the " +
		"database and restore it into a new one"
	changes := map[string]func(w *world){
		"a changed version": func(w *world) {
			w.change(func(p *databasev1.PostgreSQL) { p.Spec.Version = "17" })
		},
		"another version for old volumes": func(w *world) {
			w.remove()
			w.create(func(p *databasev1.PostgreSQL) { p.Spec.Version = "17" })
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				change(w)

				expect.Equal(w.t, "reason", databasev1.ReasonVersionChange, w.ready().Reason)
				expect.Equal(w.t, "message", message, w.ready().Message)
				expect.Equal(w.t, "image", "postgres:16", w.statefulSet().Spec.Template.Spec.Containers[0].Image)
			})
		})
	}
}

func TestVersionChangeWithoutData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.create(func(p *databasev1.PostgreSQL) { p.Spec.Version = "14" })

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Version = "15" })

		expect.Equal(t, "image", "postgres:15", w.statefulSet().Spec.Template.Spec.Containers[0].Image)
	})
}

func TestStorageGrows(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Storage = "20Gi" })

		expect.Equal(w.t, "requests", []string{
			"patch persistentvolumeclaims/data-db-0", "patch persistentvolumeclaims/data-db-1", "patch persistentvolumeclaims/data-db-2",
			"patch postgresqls/db status", "event Normal Healthy",
		}, w.Take())
		claim, err := w.kube.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data-db-2", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(w.t, "size of the claim", resource.MustParse("20Gi"), claim.Spec.Resources.Requests[corev1.ResourceStorage])
		expect.Equal(w.t, "size in the template", resource.MustParse("10Gi"),
			w.statefulSet().Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage])
		expect.Equal(w.t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
		w.remove()
		w.create(func(p *databasev1.PostgreSQL) { p.Spec.Storage = "20Gi" })
		expect.Equal(w.t, "size in the template of the next StatefulSet", resource.MustParse("10Gi"),
			w.statefulSet().Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage])
	})
}

// TestClaimOfNewServerGrows: the template of the StatefulSet keeps the old size.
func TestClaimOfNewServerGrows(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Storage = "20Gi" })
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(4)) })

		w.makeServersReady()

		claim, err := w.kube.CoreV1().PersistentVolumeClaims("ns").Get(t.Context(), "data-db-3", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(w.t, "size of the claim", resource.MustParse("20Gi"), claim.Spec.Resources.Requests[corev1.ResourceStorage])
	})
}

// TestFailedEnlargement: the API server accepts a size that the storage cannot provide.
func TestFailedEnlargement(t *testing.T) {
	inWorld(t, func(w *world) {
		claims := w.kube.CoreV1().PersistentVolumeClaims("ns")
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Storage = "20Gi" })
		w.Act(func() error {
			claim, err := claims.Get(t.Context(), "data-db-0", metav1.GetOptions{})
			expect.NoError(t, err)
			claim.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
			claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{
				Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: "a volume\nhas at most 16Gi.",
			}}
			_, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
			return err
		})

		expect.Equal(t, "reason", databasev1.ReasonStorageNotExpandable, w.ready().Reason)
		expect.Equal(t, "message", `spec.storage: the volume of PersistentVolumeClaim "data-db-0" has 10Gi, and could not be enlarged to 20Gi: `+
			`a volume has at most 16Gi: remove the cause, or set spec.storage to a size between the two`, w.ready().Message)

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Storage = "10Gi" })
		expect.Equal(t, "message at the size before", `spec.storage: PersistentVolumeClaim "data-db-0" requests 20Gi, and its volume has 10Gi. A request `+
			`cannot return to the size of the volume: set spec.storage to more than 10Gi`, w.ready().Message)

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Storage = "15Gi" })
		claim, err := claims.Get(t.Context(), "data-db-0", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "size of the claim", resource.MustParse("15Gi"), claim.Spec.Resources.Requests[corev1.ResourceStorage])
	})
}

// TestReplacedClaimIsNotRefusal: the cache is behind when a claim is deleted and created again.
func TestReplacedClaimIsNotRefusal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Refuse(func(request string) error {
			if request == "patch persistentvolumeclaims/data-db-0" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolumeClaim"}, "data-db-0", field.ErrorList{
					field.Invalid(field.NewPath("metadata", "uid"), "old", "field is immutable"),
				})
			}
			return nil
		})

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Storage = "20Gi" })

		expect.Equal(w.t, "reason", apimeta.ReasonHealthy, w.ready().Reason)
		requests := w.Take()
		for _, claim := range []string{"data-db-0", "data-db-1", "data-db-2"} {
			if request := "patch persistentvolumeclaims/" + claim; !slices.Contains(requests, request) {
				t.Errorf("%q is not among the requests %q", request, requests)
			}
		}
	})
}

func TestImmutableStorage(t *testing.T) {
	tests := map[string]struct {
		change          func(*databasev1.PostgreSQL)
		reason, message string
	}{
		"smaller": {
			func(p *databasev1.PostgreSQL) { p.Spec.Storage = "5Gi" }, databasev1.ReasonStorageShrinks,
			`spec.storage: 5Gi is less than the 10Gi of PersistentVolumeClaim "data-db-0", and volumes cannot shrink: set spec.storage to 10Gi or more`,
		},
		"not expandable": {
			func(p *databasev1.PostgreSQL) { p.Spec.Storage = "20Gi" }, databasev1.ReasonStorageNotExpandable,
			`spec.storage: PersistentVolumeClaim "data-db-0" was refused: persistentvolumeclaims "data-db-0" is forbidden: only dynamically ` +
				`provisioned pvc can be resized: allow expansion in the StorageClass, or set spec.storage to the size before`,
		},
		"another class": {
			func(p *databasev1.PostgreSQL) { p.Spec.StorageClassName = ptr.To("fast") }, databasev1.ReasonStorageClassChange,
			`spec.storageClassName: the volumes were made with "", and cannot change: set it to that, or dump the database and restore it into a new one`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.Refuse(func(request string) error {
					if !strings.HasPrefix(request, "patch persistentvolumeclaims/") {
						return nil
					}
					return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), "data-db-0", errors.New("only dynamically provisioned pvc can be resized"))
				})

				w.change(test.change)

				expect.Equal(w.t, "reason", test.reason, w.ready().Reason)
				expect.Equal(w.t, "message", test.message, w.ready().Message)
				for _, request := range w.Take() {
					if request == "patch statefulsets/db" {
						t.Error("the StatefulSet was changed")
					}
				}
				w.Refuse(nil)
				w.change(func(p *databasev1.PostgreSQL) { p.Spec.Storage, p.Spec.StorageClassName = "10Gi", nil })
				expect.Equal(w.t, "reason of the spec before", apimeta.ReasonHealthy, w.ready().Reason)
			})
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

var created = []string{
	"patch postgresqls/db", "create secrets/db-credentials",
	"patch services/db-headless", "patch services/db", "patch services/db-read", "patch configmaps/db-scripts",
	"patch statefulsets/db", "patch poddisruptionbudgets/db", "patch postgresqls/db status", "event Normal Created",
}

// TestRequestBudget holds how many requests a PostgreSQL costs in its life: the children, a
// finalizer and two statuses.
func TestRequestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)

		w.create(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(2)) })
		expect.Equal(t, "requests of the creation", created, w.Take())
		w.setPod(1, corev1.ConditionTrue)
		w.setPod(0, corev1.ConditionFalse)
		expect.Equal(t, "requests while servers start", []string(nil), w.Take())
		w.makeServersReady()
		expect.Equal(t, "requests when the servers are ready", []string{
			"patch configmaps/db-scripts", "patch postgresqls/db status", "patch postgresqls/db status", "event Normal Healthy",
		}, w.Take())
		w.Wait(9 * time.Hour)
		expect.Equal(t, "requests at rest", []string(nil), w.Take())
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(3)) })
		expect.Equal(t, "requests of a third server", []string{"patch statefulsets/db", "patch postgresqls/db status"}, w.Take())
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(1)) })
		expect.Equal(t, "requests of a single server", []string{
			"patch statefulsets/db", "delete poddisruptionbudgets/db", "patch postgresqls/db status",
		}, w.Take())
	})
}

func TestDriftIsCorrected(t *testing.T) {
	inWorld(t, func(w *world) {
		controllertest.Delete(w.World, w.kube.CoreV1().ConfigMaps("ns").Delete, "db-scripts")

		expect.Equal(w.t, "requests", []string{"patch configmaps/db-scripts", "patch postgresqls/db status", "event Normal DriftCorrected"}, w.Take())
	})
}

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

func TestChildren(t *testing.T) {
	inWorld(t, func(w *world) {
		services := map[string]corev1.ServiceSpec{}
		for _, name := range []string{"db", "db-read", "db-headless"} {
			found, err := w.kube.CoreV1().Services("ns").Get(t.Context(), name, metav1.GetOptions{})
			expect.NoError(t, err)
			services[name] = found.Spec
		}
		set := w.statefulSet()

		all := map[string]string{databasev1.LabelPostgreSQL: "db"}
		expect.Equal(w.t, "selector of the primary", map[string]string{databasev1.LabelPostgreSQL: "db", appsv1.StatefulSetPodNameLabel: "db-0"}, services["db"].Selector)
		expect.Equal(w.t, "selector of all servers", all, services["db-read"].Selector)
		expect.Equal(w.t, "headless Service", [2]any{corev1.ClusterIPNone, true}, [2]any{services["db-headless"].ClusterIP, services["db-headless"].PublishNotReadyAddresses})
		expect.Equal(w.t, "name of the headless Service", "db-headless", set.Spec.ServiceName)
		claim := set.Spec.VolumeClaimTemplates[0]
		expect.Equal(w.t, "size", resource.MustParse("10Gi"), claim.Spec.Resources.Requests[corev1.ResourceStorage])
		expect.Equal(w.t, "labels of the claims", all, claim.Labels)
		expect.Equal(w.t, "image", "postgres:16", set.Spec.Template.Spec.Containers[0].Image)
	})
}

func TestImageOfFlag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)

		w.create(func(p *databasev1.PostgreSQL) { p.Spec.Version = "17" })

		expect.Equal(t, "image", "mirror.example.com/postgres:17.2", w.statefulSet().Spec.Template.Spec.Containers[0].Image)
	})
}

// TestPodsAreRestricted holds the fields of the restricted Pod Security profile, and that no value
// of a Secret is in a pod.
func TestPodsAreRestricted(t *testing.T) {
	inWorld(t, func(w *world) {
		pod := w.statefulSet().Spec.Template.Spec
		container := pod.Containers[0]

		expect.Equal(w.t, "pod", &corev1.PodSecurityContext{
			RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(999)), RunAsGroup: ptr.To(int64(999)), FSGroup: ptr.To(int64(999)),
			FSGroupChangePolicy: ptr.To(corev1.FSGroupChangeOnRootMismatch), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}, pod.SecurityContext)
		expect.Equal(w.t, "container", &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}, container.SecurityContext)
		expect.Equal(w.t, "token", ptr.To(false), pod.AutomountServiceAccountToken)
		var names []string
		for _, variable := range container.Env {
			names = append(names, variable.Name)
		}
		expect.Equal(w.t, "environment", []string{"POD_NAME", "STATEFULSET", "SERVICE"}, names)
	})
}

func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		phases := map[string]string{}
		note := func(when string) {
			phases[when] = w.database().Status.Phase + " " + w.condition(databasev1.ConditionDatabaseReady).Reason
		}

		w.create(func(*databasev1.PostgreSQL) {})
		note("created")
		w.setPod(0, corev1.ConditionFalse)
		w.makeServerReady(0)
		note("primary ready")
		w.makeServersReady()
		note("all ready")
		expect.Equal(t, "readyReplicas", int32(3), w.database().Status.ReadyReplicas)
		expect.Equal(t, "endpoint", "db.ns.svc.cluster.local:5432", w.database().Status.Endpoint)
		w.setPod(0, corev1.ConditionFalse)
		w.makeStatefulSetReady(2)
		note("primary away")

		expect.Equal(t, "phases", map[string]string{
			"created": "Pending Starting", "primary ready": "Degraded Available", "all ready": "Running Available", "primary away": "Degraded Unavailable",
		}, phases)
	})
}

// makeStatefulSetReady reports this number of servers as ready.
func (w *world) makeStatefulSetReady(ready int32) {
	w.t.Helper()
	set := w.statefulSet()
	set.Status.ReadyReplicas = ready
	controllertest.Update(w.World, w.kube.AppsV1().StatefulSets("ns").UpdateStatus, set)
	w.Wait(time.Second)
}

// TestPasswordsAreOnlyInSecret looks for the passwords in all objects but the Secret, in all events
// and in all requests.
func TestPasswordsAreOnlyInSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var (
			mu      sync.Mutex // The two clients call record at the same time.
			written []string
		)
		record := func(action clienttesting.Action) (bool, runtime.Object, error) {
			mu.Lock()
			defer mu.Unlock()
			switch a := action.(type) {
			case clienttesting.PatchAction:
				written = append(written, string(a.GetPatch()))
			case clienttesting.CreateAction:
				if a.GetResource().Resource != "secrets" {
					text, err := json.Marshal(a.GetObject())
					written = append(written, string(text))
					expect.NoError(t, err)
				}
			}
			return false, nil, nil
		}
		w.kube.PrependReactor("*", "*", record)
		w.client.PrependReactor("*", "*", record)

		w.create(func(*databasev1.PostgreSQL) {})
		w.makeServersReady()

		secret := w.secret()
		text := strings.Join(append(written, w.Take()...), "\n")
		for _, key := range []string{databasev1.KeyPassword, databasev1.KeyReplicationPassword} {
			value := string(secret.Data[key])
			if len(value) < 26 {
				t.Errorf("%s is %q, which is too short", key, value)
			}
			encoded, err := json.Marshal(secret.Data[key])
			expect.NoError(t, err)
			if strings.Contains(text, value) || strings.Contains(text, strings.Trim(string(encoded), `"`)) {
				t.Errorf("%s is in a request", key)
			}
		}
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
			"patch postgresqls/db": true, "event Normal DataDeleted": true,
		}, deleted)
		expect.Equal(w.t, "Secret", (*corev1.Secret)(nil), w.secret())
	})
}

func TestSecretOfUserOutlivesDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret(&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{databasev1.KeyPassword: []byte("theirs")}})
		w.create(func(p *databasev1.PostgreSQL) { p.Spec.DeletionPolicy = databasev1.DeletionPolicyDelete })
		w.Take()

		w.remove()

		if w.secret() == nil {
			t.Error("the Secret of the user was deleted")
		}
		if requests := w.Take(); !slices.Contains(requests, "event Normal VolumesDeleted") {
			t.Errorf("requests and events are %q", requests)
		}
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

		message := w.database().Status.Conditions
		if text, err := json.Marshal(message); err != nil || !strings.Contains(string(text), `Deletion waits: delete Secret \"db-credentials\"`) {
			t.Errorf("conditions are %s, %v", text, err)
		}
	})
}

func TestSecretOfUserIsAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret(&corev1.Secret{
			ObjectMeta: consent("db"),
			Data:       map[string][]byte{databasev1.KeyPassword: []byte("theirs"), databasev1.KeyDatabase: []byte("shop")},
		})

		w.create(func(*databasev1.PostgreSQL) {})

		secret := w.secret()
		expect.Equal(t, "password", "theirs", string(secret.Data[databasev1.KeyPassword]))
		expect.Equal(t, "names", [2]string{"app", "shop"}, [2]string{string(secret.Data[databasev1.KeyUsername]), string(secret.Data[databasev1.KeyDatabase])})
		expect.Equal(t, "label", map[string]string{databasev1.LabelPostgreSQL: "db"}, secret.Labels)
		w.makeServersReady()
		expect.Equal(t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
		w.Take()
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())
	})
}

// TestConcurrentChangeOfSecretIsKept: the cache is behind when a user adds a key that has a
// default.
func TestConcurrentChangeOfSecretIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{databasev1.LabelPostgreSQL: "db"}},
			Data:       map[string][]byte{databasev1.KeyPassword: []byte("theirs")},
		})
		changed := w.secret()
		changed.ResourceVersion, changed.Data[databasev1.KeyDatabase] = "999", []byte("shop")
		patches := 0
		w.Refuse(func(request string) error {
			if request != "patch secrets/db-credentials" {
				return nil
			}
			if patches++; patches > 1 {
				return nil
			}
			return w.kube.Tracker().Update(corev1.SchemeGroupVersion.WithResource("secrets"), changed, "ns")
		})

		w.create(func(*databasev1.PostgreSQL) {})

		secret := w.secret()
		expect.Equal(t, "names", [2]string{"app", "shop"}, [2]string{string(secret.Data[databasev1.KeyUsername]), string(secret.Data[databasev1.KeyDatabase])})
		expect.Equal(t, "first requests", []string{
			"patch postgresqls/db", "patch secrets/db-credentials", "get secrets/db-credentials", "patch secrets/db-credentials",
		}, w.Take()[:4])
		expect.Equal(t, "reason", apimeta.ReasonProgressing, w.ready().Reason)
	})
}

// consent returns the metadata by which a user lets a PostgreSQL use a Secret.
func consent(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Labels: map[string]string{databasev1.LabelPostgreSQL: name}}
}

func TestInvalidSecret(t *testing.T) {
	controller := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "u", Controller: ptr.To(true)}}
	tests := map[string]struct {
		secret          *corev1.Secret
		reason, message string
	}{
		"no password": {
			&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"username": []byte("me")}},
			databasev1.ReasonCredentialsInvalid, `Secret "db-credentials", key "password": is missing: add it`,
		},
		"an empty password": {
			&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"password": {}}},
			databasev1.ReasonCredentialsInvalid, `Secret "db-credentials", key "password": must be one line of 1 to 256 bytes`,
		},
		"a password with a line break": {
			&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"password": []byte("a\nb")}},
			databasev1.ReasonCredentialsInvalid, `Secret "db-credentials", key "password": must be one line of 1 to 256 bytes`,
		},
		"a reserved owner": {
			&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"password": []byte("a"), "username": []byte("postgres")}},
			databasev1.ReasonCredentialsInvalid,
			`Secret "db-credentials", key "username": must be 1 to 63 lower-case letters, digits and underscores, and no name that the database reserves`,
		},
		"no consent": {
			&corev1.Secret{Data: map[string][]byte{"password": []byte("a")}},
			apimeta.ReasonOwnershipConflict,
			`Secret "db-credentials" exists and belongs to no owner: add the label database.example.com/postgresql=db if db may use and complete the Secret`,
		},
		"consent for another PostgreSQL": {
			&corev1.Secret{ObjectMeta: consent("other"), Data: map[string][]byte{"password": []byte("a")}},
			apimeta.ReasonOwnershipConflict,
			`Secret "db-credentials" exists and belongs to "other" by its label database.example.com/postgresql: ` +
				`add the label database.example.com/postgresql=db if db may use and complete the Secret`,
		},
		"another owner": {
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: controller}, Data: map[string][]byte{"password": []byte("a")}},
			apimeta.ReasonOwnershipConflict, `Secret "db-credentials" exists and belongs to ConfigMap "theirs": delete or rename one of the two`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createSecret(test.secret)

				w.create(func(*databasev1.PostgreSQL) {})

				expect.Equal(t, "reason", test.reason, w.ready().Reason)
				expect.Equal(t, "message", test.message, w.ready().Message)
				expect.Equal(t, "phase", databasev1.PhaseFailed, w.database().Status.Phase)
				sets, err := w.kube.AppsV1().StatefulSets("ns").List(t.Context(), metav1.ListOptions{})
				expect.NoError(t, err)
				expect.Equal(t, "number of StatefulSets", 0, len(sets.Items))
			})
		})
	}
}

// TestReservedNames holds that names are refused which PostgreSQL or the operator uses itself.
func TestReservedNames(t *testing.T) {
	for _, name := range []string{"none", "pg_monitor", "postgres", "public", "replication", "template0", "template1"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createSecret(&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"password": []byte("a"), "username": []byte(name)}})

				w.create(func(*databasev1.PostgreSQL) {})

				expect.Equal(t, "reason", databasev1.ReasonCredentialsInvalid, w.ready().Reason)
			})
		})
	}
}

func TestCorrectedSecretIsUsedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createSecret(&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"username": []byte("me")}})
		w.create(func(*databasev1.PostgreSQL) {})
		secret := w.secret()
		secret.Data["password"] = []byte("theirs")

		controllertest.Update(w.World, w.kube.CoreV1().Secrets("ns").Update, secret)

		w.makeServersReady()
		expect.Equal(t, "Ready", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

// TestLostSecretIsNotReplaced: a new password does not open the data in the volumes.
func TestLostSecretIsNotReplaced(t *testing.T) {
	inWorld(t, func(w *world) {
		before := w.secret()

		controllertest.Delete(w.World, w.kube.CoreV1().Secrets("ns").Delete, "db-credentials")

		expect.Equal(w.t, "Secret", (*corev1.Secret)(nil), w.secret())
		expect.Equal(w.t, "reason", databasev1.ReasonCredentialsMissing, w.ready().Reason)
		if message := w.ready().Message; !strings.Contains(message, "restore the Secret") || !strings.Contains(message, "delete the PersistentVolumeClaims") {
			t.Errorf("message is %q", message)
		}
		before.ResourceVersion, before.UID = "", ""
		w.createSecret(before)
		expect.Equal(w.t, "reason after the Secret is restored", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

// TestSecretRestoredWithoutLabel: the label shows that the Secret belongs to this PostgreSQL, even
// if the PostgreSQL had another Secret before.
func TestSecretRestoredWithoutLabel(t *testing.T) {
	inWorld(t, func(w *world) {
		before := w.secret()
		controllertest.Delete(w.World, w.kube.CoreV1().Secrets("ns").Delete, "db-credentials")
		w.createSecret(&corev1.Secret{Data: before.Data})

		w.Wait(6 * time.Minute)
		expect.Equal(w.t, "reason", apimeta.ReasonOwnershipConflict, w.ready().Reason)

		restored := w.secret()
		restored.Labels = consent("db").Labels
		w.Act(func() error {
			_, err := w.kube.CoreV1().Secrets("ns").Update(t.Context(), restored, metav1.UpdateOptions{FieldManager: "user"})
			return err
		})
		expect.Equal(w.t, "reason with the label", apimeta.ReasonHealthy, w.ready().Reason)
	})
}

func TestVolumesOfLostSecretStallCreation(t *testing.T) {
	inWorld(t, func(w *world) {
		w.remove()
		controllertest.Delete(w.World, w.kube.CoreV1().Secrets("ns").Delete, "db-credentials")
		w.Take()

		w.create(func(*databasev1.PostgreSQL) {})

		expect.Equal(w.t, "requests", []string{
			"patch postgresqls/db", "get secrets/db-credentials", "patch postgresqls/db status", "event Warning CredentialsMissing",
		}, w.Take())
		expect.Equal(w.t, "reason", databasev1.ReasonCredentialsMissing, w.ready().Reason)
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

func withBackup(p *databasev1.PostgreSQL) {
	p.Spec.Backup = &databasev1.PostgreSQLBackup{
		Enabled: true, Schedule: "0 2 * * *", Retention: "30d",
		Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", Prefix: "db", CredentialsSecret: "bucket"},
	}
}

func TestBackupIsCreatedWhenDatabaseIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serveBackups()

		w.create(func(p *databasev1.PostgreSQL) {
			withBackup(p)
			p.Spec.Backup.Volume = &backupv1.Volume{Size: "200Gi", StorageClassName: "fast"}
		})
		expect.Equal(t, "requests of the creation", created, w.Take())
		expect.Equal(t, "BackupConfigured", databasev1.ReasonWaitingForDatabase, w.condition(databasev1.ConditionBackupConfigured).Reason)
		w.makeServersReady()

		backup, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "source", backupv1.Source{Type: "postgresql", Connection: backupv1.Connection{
			Host: "db.ns.svc.cluster.local", Port: 5432, Database: "app", CredentialsSecret: "db-credentials",
		}}, backup.Spec.Source)
		expect.Equal(t, "volume", backupv1.Volume{Size: "200Gi", StorageClassName: "fast"}, *backup.Spec.Volume)
		expect.Equal(t, "BackupConfigured", databasev1.ReasonBackupNotReady, w.condition(databasev1.ConditionBackupConfigured).Reason)
		w.setBackup(metav1.ConditionTrue, "scheduled", nil)
		expect.Equal(t, "BackupConfigured of a Backup that is Ready", databasev1.ReasonBackupReady, w.condition(databasev1.ConditionBackupConfigured).Reason)
		last := metav1.NewTime(time.Now().Truncate(time.Second))
		w.setBackup(metav1.ConditionTrue, "scheduled", &last)
		expect.Equal(t, "lastBackupTime", true, w.database().Status.LastBackupTime.Equal(&last))
	})
}

// TestBackupIsKeptWhileDatabaseIsUnavailable: the first time that the database was ready counts.
func TestBackupIsKeptWhileDatabaseIsUnavailable(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.setPod(0, corev1.ConditionFalse)
		w.makeStatefulSetReady(2)

		w.change(withBackup)

		_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
	})
}

// TestDatabaseWithFailingBackupIsDegraded: Ready tells that backups that are enabled are not made.
func TestDatabaseWithFailingBackupIsDegraded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.serveBackups()
		w.change(withBackup)

		w.setBackup(metav1.ConditionFalse, "the bucket refuses the dump", nil)

		expect.Equal(w.t, "Ready", databasev1.ReasonBackupNotReady, w.ready().Reason)
		expect.Equal(w.t, "phase", databasev1.PhaseDegraded, w.database().Status.Phase)
		expect.Equal(w.t, "DatabaseReady", metav1.ConditionTrue, w.condition(databasev1.ConditionDatabaseReady).Status)
		configured := w.condition(databasev1.ConditionBackupConfigured)
		expect.Equal(w.t, "BackupConfigured", databasev1.ReasonBackupNotReady, configured.Reason)
		if !strings.Contains(configured.Message, "the bucket refuses the dump") {
			t.Errorf("message is %q", configured.Message)
		}
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Backup.Enabled = false })
		expect.Equal(w.t, "BackupConfigured when disabled", databasev1.ReasonBackupDisabled, w.condition(databasev1.ConditionBackupConfigured).Reason)
		_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.Equal(w.t, "the Backup is gone", true, apierrors.IsNotFound(err))
		expect.Equal(w.t, "Ready without backups", metav1.ConditionTrue, w.ready().Status)
	})
}

func TestMessageOfBackupNamesFieldOfDatabase(t *testing.T) {
	tests := map[string]string{
		`spec.schedule: schedule "daily" cannot be understood`: `spec.backup.schedule: schedule "daily" cannot be understood`,
		"spec.destination.prefix: the dumps belong to another Backup, which has the UID a: set spec.destination.takeOverFrom": "" +
			"spec.backup.destination.prefix: the dumps belong to another Backup, which has the UID a: set spec.backup.destination.takeOverFrom",
		`spec.source.connection: the database refuses the login: correct password in Secret "db-credentials"`: "" +
			`the database refuses the login: correct password in Secret "db-credentials"`,
		"spec.source.connection.credentialsSecret: the username has a line break": "the username has a line break",
		"spec.source: the dump failed":                                            "the dump failed",
		"spec.volume.size: is too small":                                          "spec.backup.volume.size: is too small",
	}
	for ofBackup, want := range tests {
		t.Run(want, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.serveBackups()
				w.change(withBackup)

				w.setBackup(metav1.ConditionFalse, ofBackup, nil)

				want := `Backup "db-backup" is not Ready: ` + want
				expect.Equal(w.t, "message", want, w.condition(databasev1.ConditionBackupConfigured).Message)
				expect.Equal(w.t, "message of Ready", want, w.ready().Message)
			})
		})
	}
}

// TestBackupIsKeptWhileSecretIsMissing: the name of the database is in the Secret.
func TestBackupIsKeptWhileSecretIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.serveBackups()
		w.createSecret(&corev1.Secret{ObjectMeta: consent("db"), Data: map[string][]byte{"password": []byte("theirs"), "database": []byte("shop")}})
		w.create(withBackup)
		w.makeServersReady()
		controllertest.Delete(w.World, w.kube.CoreV1().Secrets("ns").Delete, "db-credentials")

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Backup.Schedule = "0 3 * * *" })

		backup, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
		expect.Equal(t, "reason", databasev1.ReasonCredentialsMissing, w.ready().Reason)
		expect.Equal(t, "database", "shop", backup.Spec.Source.Connection.Database)
		expect.Equal(t, "schedule", "0 2 * * *", backup.Spec.Schedule)
	})
}

func TestBackupWaitsForItsKind(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(withBackup)
		expect.Equal(w.t, "BackupConfigured", databasev1.ReasonBackupUnserved, w.condition(databasev1.ConditionBackupConfigured).Reason)
		expect.Equal(w.t, "Ready", databasev1.ReasonBackupUnserved, w.ready().Reason)

		w.serveBackups()

		_, err := w.client.BackupV1().Backups("ns").Get(t.Context(), "db-backup", metav1.GetOptions{})
		expect.NoError(t, err)
	})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

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
			apimeta.ReasonOwnershipConflict, `Secret "db-credentials" exists and belongs to ConfigMap "theirs": let it set the label ` +
				`database.example.com/postgresql=db if db may use the Secret, or delete or rename one of the two`,
		},
		"another owner, which sets too few keys": {
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{OwnerReferences: controller, Labels: consent("db").Labels}, Data: map[string][]byte{"password": []byte("a")},
			},
			databasev1.ReasonCredentialsInvalid, `Secret "db-credentials", key "database": is missing: add it`,
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

// TestSecretOfAnotherController: another operator, which fetches the values from a vault, may own the
// Secret. The Secret is used if it has all keys, and never written.
func TestSecretOfAnotherController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		owners := []metav1.OwnerReference{{APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "db", UID: "u", Controller: ptr.To(true)}}
		data := map[string][]byte{
			"username": []byte("shop"), "database": []byte("shop"), "password": []byte("a"), databasev1.KeyReplicationPassword: []byte("b"),
		}
		w.createSecret(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: owners, Labels: consent("db").Labels}, Data: data})

		w.create(func(*databasev1.PostgreSQL) {})
		w.deleteWith()

		if found := w.secret(); found == nil {
			t.Error("the Secret was deleted")
		} else {
			expect.Equal(t, "data", data, found.Data)
			expect.Equal(t, "owners", owners, found.OwnerReferences)
		}
		expect.Equal(t, "the StatefulSet exists", true, w.statefulSet() != nil)
	})
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

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/ssa"
	"github.com/example/demoapp-controller/test/expect"
)

func (w *world) configMap(name string) map[string]string {
	w.t.Helper()
	return controllertest.Get(w.World, w.kube.CoreV1().ConfigMaps("ns").Get, name).Data
}

// TestOnlyParametersThatNeedRestartRollPods: the servers reload all other parameters.
func TestOnlyParametersThatNeedRestartRollPods(t *testing.T) {
	inWorld(t, func(w *world) {
		template := func(parameters map[string]databasev1.ParameterValue) corev1.PodTemplateSpec {
			w.change(func(p *databasev1.PostgreSQL) { p.Spec.Parameters = parameters })
			return w.statefulSet().Spec.Template
		}
		before := w.statefulSet().Spec.Template

		reloaded := template(map[string]databasev1.ParameterValue{"work_mem": "8MB"})
		restarted := template(map[string]databasev1.ParameterValue{"work_mem": "8MB", "max_connections": "300"})

		expect.Equal(t, "template with parameters that are reloaded", before, reloaded)
		expect.Equal(t, "parameters", "max_connections = '300'\nwork_mem = '8MB'\n", w.configMap("db-scripts")["parameters.conf"])
		if restarted.Annotations[databasev1.AnnotationRestart] == "" {
			t.Error("a parameter that needs a restart does not roll the pods")
		}
	})
}

func TestCertificateOfOperator(t *testing.T) {
	inWorld(t, func(w *world) {
		plain := w.statefulSet().Spec.Template
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = &databasev1.PostgreSQLTLS{Required: true} })
		secret := controllertest.Get(w.World, w.kube.CoreV1().Secrets("ns").Get, "db-tls")

		authority := w.configMap("db-ca")["ca.crt"]
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(authority))
		pair, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"])
		expect.NoError(t, err)
		for _, host := range []string{"db", "db.ns.svc", "db-read.ns.svc.example.org", "db-0.db-headless.ns.svc", "localhost"} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: pool, CurrentTime: time.Now()})
			expect.NoError(t, err)
		}
		pod := w.statefulSet().Spec.Template.Spec
		environment := pod.Containers[0].Env
		expect.Equal(t, "environment", corev1.EnvVar{Name: "TLS", Value: "required"}, environment[len(environment)-1])
		volume := pod.Volumes[len(pod.Volumes)-1].Secret
		expect.Equal(t, "Secret", "db-tls", volume.SecretName)
		expect.Equal(t, "files of the pods", []corev1.KeyToPath{{Key: "tls.crt", Path: "tls.crt"}, {Key: "tls.key", Path: "tls.key"}}, volume.Items)
		w.Wait(time.Minute) // A status that reports only progress is written later.
		w.Take()
		w.Stop()
		w.start()
		expect.Equal(t, "requests of a restart", []string(nil), w.Take())

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = nil })
		expect.Equal(t, "template without TLS", plain, w.statefulSet().Spec.Template)
		requests := w.Take()
		for _, deletion := range []string{"delete secrets/db-tls", "delete configmaps/db-ca"} {
			if !slices.Contains(requests, deletion) {
				t.Errorf("requests without TLS are %q, want %q", requests, deletion)
			}
		}
	})
}

// TestSecretOfOthersIsNoCertificate: a Secret or ConfigMap with the name of a certificate's object
// belongs to its creator, also with the operator's label. No pod mounts the Secret.
func TestSecretOfOthersIsNoCertificate(t *testing.T) {
	tests := map[string]struct {
		name, kind string
		labels     map[string]string
	}{
		"a Secret":                 {"db-tls", "Secret", nil},
		"a Secret with the label":  {"db-tls", "Secret", map[string]string{databasev1.LabelCertificate: "db"}},
		"the ConfigMap of clients": {"db-ca", "ConfigMap", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				before := w.statefulSet().Spec.Template
				metadata := metav1.ObjectMeta{Name: test.name, Namespace: "ns", Labels: test.labels}
				secrets, configMaps := w.kube.CoreV1().Secrets("ns"), w.kube.CoreV1().ConfigMaps("ns")
				if test.kind == "Secret" {
					controllertest.Create(w.World, secrets.Create, &corev1.Secret{ObjectMeta: metadata, Data: map[string][]byte{"tls.crt": []byte("theirs")}})
				} else {
					controllertest.Create(w.World, configMaps.Create, &corev1.ConfigMap{ObjectMeta: metadata, Data: map[string]string{"ca.crt": "theirs"}})
				}

				w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = &databasev1.PostgreSQLTLS{} })

				if test.kind == "Secret" {
					expect.Equal(w.t, "template", before, w.statefulSet().Spec.Template)
				}
				stalled := w.condition("Stalled")
				expect.Equal(w.t, "reason", apimeta.ReasonOwnershipConflict, stalled.Reason)
				if want := fmt.Sprintf("%s %q exists and belongs to no owner", test.kind, test.name); !strings.Contains(stalled.Message, want) {
					w.t.Errorf("message is %q, want %q in it", stalled.Message, want)
				}
				if test.kind == "Secret" {
					expect.Equal(w.t, "data", map[string][]byte{"tls.crt": []byte("theirs")}, controllertest.Get(w.World, secrets.Get, test.name).Data)
				} else {
					expect.Equal(w.t, "data", map[string]string{"ca.crt": "theirs"}, w.configMap(test.name))
				}
				w.Take()
				w.Wait(time.Hour)
				for _, request := range w.Take() {
					if strings.Contains(request, test.name) && !strings.HasPrefix(request, "get ") {
						w.t.Errorf("the object was written: %s", request)
					}
				}
			})
		})
	}
}

// almostRenewal is an hour less than the age at which a certificate is renewed: after two thirds of
// its lifetime, which begins an hour before it is made.
const almostRenewal = 60*24*time.Hour - 2*time.Hour

func TestCertificateIsRenewed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = &databasev1.PostgreSQLTLS{} })
		before := controllertest.Get(w.World, w.kube.CoreV1().Secrets("ns").Get, "db-tls")
		authority := w.configMap("db-ca")
		w.Stop() // Workqueues have a timer of ten seconds, which makes months long.
		w.Wait(almostRenewal)
		w.start()
		w.Take()

		w.Wait(2 * time.Hour)

		after := controllertest.Get(w.World, w.kube.CoreV1().Secrets("ns").Get, "db-tls")
		if bytes.Equal(before.Data["tls.crt"], after.Data["tls.crt"]) {
			t.Error("the certificate is the same")
		}
		expect.Equal(t, "CA", authority, w.configMap("db-ca"))
	})
}

// TestCertificateKeepsItsLabel: without the label, the operator does not watch the Secret. The
// label comes back, the certificate is the same, and it is renewed later.
func TestCertificateKeepsItsLabel(t *testing.T) {
	for name, value := range map[string]string{"removed": "", "changed": "other"} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = &databasev1.PostgreSQLTLS{} })
				secrets := w.kube.CoreV1().Secrets("ns")
				before := w.relabelCertificate(value)
				w.Wait(almostRenewal)

				w.start()
				w.Settle()

				after := controllertest.Get(w.World, secrets.Get, "db-tls")
				expect.Equal(w.t, "label", "db", after.Labels[databasev1.LabelCertificate])
				expect.Equal(w.t, "data", before.Data, after.Data)
				w.Wait(2 * time.Hour)
				if renewed := controllertest.Get(w.World, secrets.Get, "db-tls"); bytes.Equal(before.Data["tls.crt"], renewed.Data["tls.crt"]) {
					w.t.Error("the certificate is not renewed")
				}
			})
		})
	}
}

// relabelCertificate stops the operator, which must not see the label before it is gone, and
// removes or changes the label of the certificate. It returns the Secret as it was.
func (w *world) relabelCertificate(value string) *corev1.Secret {
	w.t.Helper()
	secrets := w.kube.CoreV1().Secrets("ns")
	before := controllertest.Get(w.World, secrets.Get, "db-tls")
	changed := before.DeepCopy()
	delete(changed.Labels, databasev1.LabelCertificate)
	if value != "" {
		changed.Labels[databasev1.LabelCertificate] = value
	}
	w.Stop()
	controllertest.Update(w.World, secrets.Update, changed)
	return before
}

// TestUnreadableCertificateIsKept: an API server that does not answer is no reason to replace or to
// delete a certificate.
func TestUnreadableCertificateIsKept(t *testing.T) {
	inWorld(t, func(w *world) {
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = &databasev1.PostgreSQLTLS{} })
		secrets := w.kube.CoreV1().Secrets("ns")
		before := w.relabelCertificate("")
		w.Refuse(func(request string) error {
			if request == "get secrets/db-tls" {
				return apierrors.NewInternalError(errors.New("no answer"))
			}
			return nil
		})

		w.start()
		w.Wait(time.Second)

		expect.Equal(t, "data", before.Data, controllertest.Get(w.World, secrets.Get, "db-tls").Data)
		expect.Contains(t, "message", w.ready().Message, "no answer")
		w.Refuse(nil)
		w.Wait(time.Hour)
		after := controllertest.Get(w.World, secrets.Get, "db-tls")
		expect.Equal(t, "label", "db", after.Labels[databasev1.LabelCertificate])
		expect.Equal(t, "data", before.Data, after.Data)
	})
}

// TestCertificateOfUser: only the pods mount it. The operator looks once whether they can.
func TestCertificateOfUser(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createCertificate("theirs", "tls.crt", "tls.key")

		w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = &databasev1.PostgreSQLTLS{SecretName: "theirs"} })

		expect.Equal(t, "requests", []string{"get secrets/theirs", "patch statefulsets/db", "patch postgresqls/db status"}, w.Take())
		volumes := w.statefulSet().Spec.Template.Spec.Volumes
		expect.Equal(t, "Secret", "theirs", volumes[len(volumes)-1].Secret.SecretName)
		w.makeServersReady()
		w.Take()
		w.Wait(9 * time.Hour)
		w.Stop()
		w.start()
		expect.Equal(t, "requests at rest and of a restart", []string(nil), w.Take())
	})
}

// createCertificate creates the Secret of a user with these keys.
func (w *world) createCertificate(name string, keys ...string) {
	w.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns"}, Data: map[string][]byte{}}
	for _, key := range keys {
		secret.Data[key] = []byte("theirs")
	}
	controllertest.Create(w.World, w.kube.CoreV1().Secrets("ns").Create, secret)
}

// TestMissingCertificateOfUser: the running servers stay as they are, because new ones could not
// mount the Secret.
func TestMissingCertificateOfUser(t *testing.T) {
	tests := map[string]struct {
		keys []string
		want string
	}{
		"no Secret": {nil, `spec.tls.secretName: Secret "theirs" does not exist: create it, or correct the name`},
		"no key":    {[]string{"tls.crt", "key.pem"}, `spec.tls.secretName: Secret "theirs" lacks the key tls.key: add it`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				before := w.statefulSet().Spec.Template
				if test.keys != nil {
					w.createCertificate("theirs", test.keys...)
				}

				w.change(func(p *databasev1.PostgreSQL) { p.Spec.TLS = &databasev1.PostgreSQLTLS{SecretName: "theirs"} })

				stalled := w.condition("Stalled")
				expect.Equal(w.t, "Stalled", [2]string{databasev1.ReasonCertificateMissing, test.want}, [2]string{stalled.Reason, stalled.Message})
				expect.Equal(w.t, "template", before, w.statefulSet().Spec.Template)
				if test.keys != nil {
					controllertest.Delete(w.World, w.kube.CoreV1().Secrets("ns").Delete, "theirs")
				}
				w.createCertificate("theirs", "tls.crt", "tls.key")
				w.Wait(5 * time.Minute)
				volumes := w.statefulSet().Spec.Template.Spec.Volumes
				expect.Equal(w.t, "Secret of the pods", "theirs", volumes[len(volumes)-1].Secret.SecretName)
			})
		})
	}
}

// TestNewerOperatorKeepsScripts: servers of an earlier operator keep its scripts until they restart.
func TestNewerOperatorKeepsScripts(t *testing.T) {
	inWorld(t, func(w *world) {
		w.Stop()
		w.applyAsEarlierOperator()
		w.start()
		scripts := func() string {
			return controllertest.Get(w.World, w.kube.CoreV1().ConfigMaps("ns").Get, "db-scripts").Data["live.sh"]
		}

		expect.Equal(w.t, "script after the start", "earlier", scripts())
		w.change(func(p *databasev1.PostgreSQL) { p.Spec.Replicas = ptr.To(int32(4)) })
		expect.Equal(w.t, "script after another size", "earlier", scripts())
		expect.Equal(w.t, "servers", int32(4), *w.statefulSet().Spec.Replicas)
		expect.Equal(w.t, "annotation after another size", "", w.statefulSet().Spec.Template.Annotations[databasev1.AnnotationScripts])

		w.change(func(p *databasev1.PostgreSQL) {
			p.Spec.Resources = &workloadv1alpha1.Resources{Requests: workloadv1alpha1.ResourceList{"cpu": resource.MustParse("1")}}
		})

		expect.Equal(w.t, "the earlier script is gone", false, scripts() == "earlier")
		expect.Equal(w.t, "annotation", false, w.statefulSet().Spec.Template.Annotations[databasev1.AnnotationScripts] == "")
	})
}

// applyAsEarlierOperator applies the children, and records them, as an operator did that had another script,
// and recorded no templates.
func (w *world) applyAsEarlierOperator() {
	w.t.Helper()
	ctx, options := w.t.Context(), metav1.ApplyOptions{FieldManager: child.FieldManager, Force: true}
	found := w.database()
	record := func(object metav1.Object, kind string) {
		for i := range found.Status.Children.Applied {
			if applied := &found.Status.Children.Applied[i]; applied.Kind == kind && applied.Name == object.GetName() {
				*applied = childv1alpha1.AppliedChild{
					Kind: kind, Name: object.GetName(), UID: string(object.GetUID()), Digest: "earlier",
					Fingerprint: ssa.TraceOf(object, ssa.ManagedFields(object), child.FieldManager).Fingerprint,
				}
			}
		}
	}
	w.Act(func() error {
		scripts, err := w.kube.CoreV1().ConfigMaps("ns").Get(ctx, "db-scripts", metav1.GetOptions{})
		expect.NoError(w.t, err)
		files, err := corev1ac.ExtractConfigMap(scripts, child.FieldManager)
		expect.NoError(w.t, err)
		files.Data["live.sh"] = "earlier"
		scripts, err = w.kube.CoreV1().ConfigMaps("ns").Apply(ctx, files, options)
		expect.NoError(w.t, err)
		set, err := w.kube.AppsV1().StatefulSets("ns").Get(ctx, "db", metav1.GetOptions{})
		expect.NoError(w.t, err)
		servers, err := appsv1ac.ExtractStatefulSet(set, child.FieldManager)
		expect.NoError(w.t, err)
		delete(servers.Spec.Template.Annotations, databasev1.AnnotationScripts)
		set, err = w.kube.AppsV1().StatefulSets("ns").Apply(ctx, servers, options)
		expect.NoError(w.t, err)
		record(scripts, "ConfigMap")
		record(set, "StatefulSet")
		_, err = w.client.DatabaseV1().PostgreSQLs("ns").UpdateStatus(ctx, found, metav1.UpdateOptions{})
		return err
	})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package admission

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/webappcases"
)

const (
	configurations = "webapp-admission"
	secretName     = "demoapp-webhook-certificates"
	// quiet is how long an operator without work is silent.
	quiet = 2 * time.Second
)

// isAboutCertificates selects the operator's requests for its certificates and the webhook
// configurations.
func isAboutCertificates(e cluster.AuditEvent) bool {
	return cluster.ByOperator()(e) && (e.Name == secretName || e.Group == "admissionregistration.k8s.io")
}

// TestReplicasShareCertificates starts two replicas, of which one leads, and follows their
// requests.
func TestReplicasShareCertificates(t *testing.T) {
	awaitNoRules(t.Context(), t)
	removeCertificates(t)
	begin := time.Now()
	one, two := newEndpoint(t), newEndpoint(t)
	one.install(t)

	first := one.operator(t)
	two.operator(t)

	awaitRules(t, true)
	metrics, err := first.Metrics(t.Context())
	if err != nil || !strings.Contains(metrics, "\nwebhook_certificate_expiration_timestamp_seconds 1.") {
		t.Errorf("the metrics have no end of the certificate: %v", err)
	}
	served := []*x509.Certificate{dial(t, one), dial(t, two)}
	if !served[0].Equal(served[1]) {
		t.Error("the replicas serve different certificates")
	}
	assertWrites(t, begin, map[string]int{
		"create secrets": 1, "patch validatingwebhookconfigurations": 1, "patch mutatingwebhookconfigurations": 1,
	})

	begin = time.Now()
	changeBundle(t, []byte(`[{"op":"remove","path":"/webhooks/1/clientConfig/caBundle"}]`))
	awaitBundle(t)
	// Both replicas see the change.
	assertWrites(t, begin, map[string]int{"patch validatingwebhookconfigurations": 2})

	replaceServing(t)
	cluster.Eventually(t.Context(), t, "both replicas serve a new certificate", func(context.Context) (bool, error) {
		now := []*x509.Certificate{dial(t, one), dial(t, two)}
		return now[0].Equal(now[1]) && !now[0].Equal(served[0]), nil
	})
	assertPermissionsAreUsed(t)
}

// rotations is the number of serving certificates that take the place of another one under load.
const rotations = 5

// TestCertificateRotatesUnderLoad replaces the serving certificate repeatedly while users create
// WebApps. No request may fail because of the webhook.
func TestCertificateRotatesUnderLoad(t *testing.T) {
	awaitNoRules(t.Context(), t)
	e := newEndpoint(t)
	e.operator(t)
	e.install(t)
	awaitRules(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	var users sync.WaitGroup
	var reviews atomic.Int64
	for range 4 {
		users.Go(func() {
			for ctx.Err() == nil {
				_, err := create(ctx, newWebApp(webappcases.Ordinary, "probe", goodImage), metav1.DryRunAll)
				if err != nil && ctx.Err() == nil {
					t.Errorf("a WebApp is refused during the rotation: %v", err)
					return
				}
				reviews.Add(1)
			}
		})
	}

	for range rotations {
		served, before := dial(t, e), reviews.Load()
		replaceServing(t)
		cluster.Eventually(ctx, t, "another certificate is served, and WebApps are created", func(context.Context) (bool, error) {
			return !dial(t, e).Equal(served) && reviews.Load() > before+100, nil
		})
	}

	cancel()
	users.Wait()
}

// removeCertificates removes the certificates of an earlier test.
func removeCertificates(t *testing.T) {
	t.Helper()
	secrets := shared.Client.CoreV1().Secrets(cluster.OperatorNamespace)
	err := secrets.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=" + secretName})
	if err != nil {
		t.Fatal(err)
	}
}

// dial returns the certificate that a replica serves, if it is trusted by the bundle of the
// configurations.
func dial(t *testing.T, e endpoint) *x509.Certificate {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(secret(t).Data["ca.crt"])
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	connection, err := dialer.DialContext(t.Context(), "tcp", e.address)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	secured, ok := connection.(*tls.Conn)
	if !ok {
		t.Fatalf("unexpected %T", connection)
	}
	return secured.ConnectionState().PeerCertificates[0]
}

func secret(t *testing.T) *corev1.Secret {
	t.Helper()
	found, err := shared.Client.CoreV1().Secrets(cluster.OperatorNamespace).Get(t.Context(), secretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// replaceServing makes the serving certificate unusable.
func replaceServing(t *testing.T) {
	t.Helper()
	changed := secret(t)
	changed.Data["tls.crt"] = []byte("no certificate")
	if _, err := shared.Client.CoreV1().Secrets(cluster.OperatorNamespace).Update(t.Context(), changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func changeBundle(t *testing.T, patch []byte) {
	t.Helper()
	_, err := shared.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Patch(t.Context(), configurations,
		types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func awaitBundle(t *testing.T) {
	t.Helper()
	bundle := secret(t).Data["ca.crt"]
	cluster.Eventually(t.Context(), t, "the caBundle is restored", func(ctx context.Context) (bool, error) {
		live, err := shared.Client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, configurations, metav1.GetOptions{})
		return err == nil && bytes.Equal(live.Webhooks[1].ClientConfig.CABundle, bundle), err
	})
}

// assertWrites waits until the operators are silent, and compares their successful writes since
// begin with the most that are allowed. Each must occur.
func assertWrites(t *testing.T, begin time.Time, most map[string]int) {
	t.Helper()
	if err := shared.AwaitAuditQuiet(t.Context(), quiet, isAboutCertificates); err != nil {
		t.Fatal(err)
	}
	requests, err := shared.AuditRequests(begin, isAboutCertificates)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range requests {
		if slices.Contains([]string{"create", "update", "patch", "delete"}, r.Verb) && r.Code < 300 {
			got[r.Verb+" "+r.Resource]++
		}
	}
	t.Logf("writes: %v", got)
	for what, count := range got {
		if count > most[what] {
			t.Errorf("%d × %s, want at most %d", count, what, most[what])
		}
	}
	for what := range most {
		if got[what] == 0 {
			t.Errorf("no %s", what)
		}
	}
}

// assertPermissionsAreUsed asserts that the operator used each permission of rbac.yaml, and needed
// no other for the certificates. A watch also streams the initial list.
func assertPermissionsAreUsed(t *testing.T) {
	t.Helper()
	requests, err := shared.AuditRequests(time.Time{}, isAboutCertificates)
	if err != nil {
		t.Fatal(err)
	}
	var used, granted []string
	for _, r := range requests {
		if r.Code == 403 {
			t.Errorf("forbidden: %+v", r)
		}
		used = append(used, r.Verb+" "+r.Resource)
	}
	objects, err := shared.Objects(artifacts + "rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		if !strings.HasSuffix(object.GetKind(), "Role") {
			continue
		}
		var role rbacv1.ClusterRole // A Role has rules of the same form.
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					granted = append(granted, verb+" "+resource)
				}
			}
		}
	}
	for _, permission := range granted {
		if !slices.Contains(used, strings.Replace(permission, "list ", "watch ", 1)) {
			t.Errorf("rbac.yaml grants %s, which was not used", permission)
		}
	}
	for _, request := range used {
		if !slices.Contains(granted, request) {
			t.Errorf("rbac.yaml does not grant %s", request)
		}
	}
}

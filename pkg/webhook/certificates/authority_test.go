// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/webhook/certificates"
)

const (
	host = "webhook.system.svc"
	day  = 24 * time.Hour
)

var options = certificates.Options{
	Name: "webhook", Namespace: "system", Secret: "webhook-certificates", Hosts: []string{host, "127.0.0.1"},
	Configurations: "webhook", Clock: clock.RealClock{},
}

// The requests of one renewal, as the journal has them.
const (
	readSecret        = "get secrets/webhook-certificates"
	createSecret      = "create secrets/webhook-certificates"
	updateSecret      = "update secrets/webhook-certificates"
	publishValidating = "patch validatingwebhookconfigurations/webhook"
	publishMutating   = "patch mutatingwebhookconfigurations/webhook"
)

// rig is a fake API server with both webhook configurations.
type rig struct {
	*controllertest.World

	t      *testing.T
	client *fake.Clientset
}

func newRig(t *testing.T) *rig {
	t.Helper()
	client := fake.NewClientset()
	r := &rig{World: controllertest.NewWorld(t, client), t: t, client: client}
	service := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "system", Name: "webhook"}}
	none := ptr.To(admissionregistrationv1.SideEffectClassNone)
	r.Act(func() error {
		// The first object gets resourceVersion 1, with which an apply only creates.
		_, err0 := client.CoreV1().Namespaces().Create(t.Context(),
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "system"}}, metav1.CreateOptions{})
		api := client.AdmissionregistrationV1()
		_, err1 := api.ValidatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "webhook"},
			Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{Name: "one.example.com", ClientConfig: service, SideEffects: none},
				{Name: "two.example.com", ClientConfig: service, SideEffects: none},
			},
		}, metav1.CreateOptions{})
		_, err2 := api.MutatingWebhookConfigurations().Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "webhook"},
			Webhooks:   []admissionregistrationv1.MutatingWebhook{{Name: "one.example.com", ClientConfig: service, SideEffects: none}},
		}, metav1.CreateOptions{})
		return errors.Join(err0, err1, err2)
	})
	return r
}

// replica starts the authority of a replica of the operator.
func (r *rig) replica(options certificates.Options) *certificates.Authority {
	r.t.Helper()
	authority, err := certificates.NewAuthority(r.client, options)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Run(func(stop, _ context.Context) error { return authority.Run(stop) })
	return authority
}

// stored returns an object of the API server without sending a request.
func stored[T runtime.Object](r *rig, resource schema.GroupVersionResource, namespace, name string) T {
	r.t.Helper()
	object, err := r.client.Tracker().Get(resource, namespace, name)
	if err != nil {
		r.t.Fatal(err)
	}
	typed, ok := object.(T)
	if !ok {
		r.t.Fatalf("unexpected %T", object)
	}
	return typed
}

func (r *rig) validating() *admissionregistrationv1.ValidatingWebhookConfiguration {
	r.t.Helper()
	resource := admissionregistrationv1.SchemeGroupVersion.WithResource("validatingwebhookconfigurations")
	return stored[*admissionregistrationv1.ValidatingWebhookConfiguration](r, resource, "", "webhook")
}

// bundles returns the caBundles of all webhooks.
func (r *rig) bundles() [][]byte {
	r.t.Helper()
	var bundles [][]byte
	for _, webhook := range r.validating().Webhooks {
		bundles = append(bundles, webhook.ClientConfig.CABundle)
	}
	resource := admissionregistrationv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	mutating := stored[*admissionregistrationv1.MutatingWebhookConfiguration](r, resource, "", "webhook")
	return append(bundles, mutating.Webhooks[0].ClientConfig.CABundle)
}

func (r *rig) secret() *corev1.Secret {
	r.t.Helper()
	return stored[*corev1.Secret](r, corev1.SchemeGroupVersion.WithResource("secrets"), "system", "webhook-certificates")
}

// changeSecret changes the Secret as an administrator does.
func (r *rig) changeSecret(change func(*corev1.Secret)) {
	r.t.Helper()
	r.Act(func() error {
		secret := r.secret().DeepCopy()
		change(secret)
		_, err := r.client.CoreV1().Secrets("system").Update(r.t.Context(), secret, metav1.UpdateOptions{})
		return err
	})
}

func (r *rig) assertRequests(want ...string) {
	r.t.Helper()
	got := r.Take()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("%d requests, of them %q, want %q", len(got), got[:min(len(got), 20)], want)
	}
}

// accepts returns the error with which an API server with the bundle refuses the certificate of a
// replica, or nil.
func accepts(bundle []byte, replica *certificates.Authority) error {
	certificate, err := replica.Certificate()
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	for _, name := range options.Hosts {
		if _, err := certificate.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: time.Now()}); err != nil {
			return err
		}
	}
	return nil
}

func countCAs(bundle []byte) int { return bytes.Count(bundle, []byte("BEGIN CERTIFICATE")) }

func TestFirstReplicaIssuesAndPublishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)

		replica := r.replica(options)

		r.assertRequests(readSecret, createSecret, publishValidating, publishMutating)
		for _, bundle := range r.bundles() {
			if err := accepts(bundle, replica); err != nil || countCAs(bundle) != 1 {
				t.Errorf("%d CAs, %v", countCAs(bundle), err)
			}
		}
		if secret := r.secret(); secret.Type != corev1.SecretTypeTLS {
			t.Errorf("type of the Secret is %s", secret.Type)
		}
		r.Wait(30 * day)
		r.assertRequests()
	})
}

func TestSecondReplicaReadsSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := r.replica(options)
		r.Take()

		second := r.replica(options)

		r.assertRequests()
		one, err1 := first.Certificate()
		two, err2 := second.Certificate()
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !one.Leaf.Equal(two.Leaf) {
			t.Error("the replicas serve different certificates")
		}
	})
}

// TestRefusedListsAreReported: WatchErrors reports resources that cannot be watched.
func TestRefusedListsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.client.PrependReactor("list", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(action.GetResource().GroupResource(), "", errors.New("no rule allows it"))
		})
		var mu sync.Mutex // Each informer has its own goroutine.
		reported := map[string]bool{}
		refused := options
		refused.WatchErrors = func(watched string) cache.WatchErrorHandlerWithContext {
			return func(context.Context, *cache.Reflector, error) {
				mu.Lock()
				defer mu.Unlock()
				reported[watched] = true
			}
		}

		r.replica(refused)
		r.Wait(time.Minute)

		mu.Lock()
		defer mu.Unlock()
		for _, watched := range []string{
			"webhook certificates", "validatingwebhookconfigurations.admissionregistration.k8s.io",
			"mutatingwebhookconfigurations.admissionregistration.k8s.io",
		} {
			if !reported[watched] {
				t.Errorf("the refused list of %s is not reported", watched)
			}
		}
	})
}

// TestConcurrentStartOfReplicas: the slower replica uses the Secret of the faster one.
func TestConcurrentStartOfReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var replicas []*certificates.Authority
		for range 2 {
			authority, err := certificates.NewAuthority(r.client, options)
			if err != nil {
				t.Fatal(err)
			}
			replicas = append(replicas, authority)
		}

		r.Run(func(stop, _ context.Context) error {
			var running sync.WaitGroup
			for _, replica := range replicas {
				running.Go(func() {
					if err := replica.Run(stop); err != nil {
						t.Error(err)
					}
				})
			}
			running.Wait()
			return nil
		})
		r.Wait(time.Minute)

		for _, bundle := range r.bundles() {
			if err := errors.Join(accepts(bundle, replicas[0]), accepts(bundle, replicas[1])); err != nil || countCAs(bundle) != 1 {
				t.Errorf("%d CAs, %v", countCAs(bundle), err)
			}
		}
	})
}

// TestRotation follows two replicas for 500 days, hour by hour. API servers may see a caBundle that
// is an hour old.
func TestRotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		replicas := []*certificates.Authority{r.replica(options), r.replica(options)}
		r.Take()
		outdated, most := r.bundles(), 1
		serials, accepted := map[string]bool{}, map[string]time.Time{}
		// A verified chain is verified again only after it expires.
		verify := func(bundle []byte, replica *certificates.Authority) error {
			certificate, err := replica.Certificate()
			if err != nil {
				return err
			}
			key := certificate.Leaf.SerialNumber.String() + string(bundle)
			if time.Now().Before(accepted[key]) {
				return nil
			}
			accepted[key] = certificate.Leaf.NotAfter
			return accepts(bundle, replica)
		}

		for end := time.Now().Add(500 * day); time.Now().Before(end); {
			r.Wait(time.Hour)
			bundles := r.bundles()
			for i := range bundles {
				most = max(most, countCAs(bundles[i]))
				for _, replica := range replicas {
					if err := errors.Join(verify(bundles[i], replica), verify(outdated[i], replica)); err != nil {
						t.Fatalf("%s: %v", time.Now(), err)
					}
				}
			}
			outdated = bundles
			certificate, err := replicas[0].Certificate()
			if err != nil {
				t.Fatal(err)
			}
			serials[certificate.Leaf.SerialNumber.String()] = true
		}

		// There are certificates of the days 0, 60 to 480, and CAs of the days 0, 243 and 486. The
		// first CA ends on day 365.
		if len(serials) != 9 {
			t.Errorf("%d serving certificates", len(serials))
		}
		if most != 2 {
			t.Errorf("at most %d CAs were trusted at a time, want 2", most)
		}
		writes := 0
		for _, request := range r.Take() {
			if request == updateSecret {
				writes++
			}
		}
		// Each replica attempts each renewal. The slower replica gets a conflict.
		if limit := 2 * (len(serials) + 2 + 1); writes > limit {
			t.Errorf("%d writes of the Secret, want at most %d", writes, limit)
		}
	})
}

func TestBundleIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.replica(options)
		r.Take()

		r.Act(func() error {
			changed, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), "webhook", metav1.GetOptions{})
			if err != nil {
				return err
			}
			changed = changed.DeepCopy()
			changed.Webhooks[1].ClientConfig.CABundle = []byte("theirs")
			changed.Webhooks[1].TimeoutSeconds = ptr.To[int32](3)
			_, err = r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Update(t.Context(), changed, metav1.UpdateOptions{})
			return err
		})

		r.assertRequests(readSecret, publishValidating)
		webhook := r.validating().Webhooks[1]
		if !bytes.Equal(webhook.ClientConfig.CABundle, r.secret().Data["ca.crt"]) {
			t.Errorf("caBundle is %.40s", webhook.ClientConfig.CABundle)
		}
		if ptr.Deref(webhook.TimeoutSeconds, 0) != 3 || webhook.ClientConfig.Service == nil {
			t.Errorf("fields of others have changed: %+v", webhook)
		}
	})
}

func TestLaterConfigurationGetsBundle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		configuration := r.validating()
		r.Act(func() error {
			return r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Delete(t.Context(), "webhook", metav1.DeleteOptions{})
		})
		replica := r.replica(options)
		r.assertRequests(readSecret, createSecret, publishMutating)

		r.Act(func() error {
			configuration.ObjectMeta = metav1.ObjectMeta{Name: "webhook"}
			_, err := r.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), configuration, metav1.CreateOptions{})
			return err
		})

		r.assertRequests(readSecret, publishValidating)
		if err := accepts(r.validating().Webhooks[0].ClientConfig.CABundle, replica); err != nil {
			t.Error(err)
		}
	})
}

// TestRenewalWaitsForPublication: a CA signs no certificate before the configurations trust the CA.
func TestRenewalWaitsForPublication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		replica := r.replica(options)
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "webhookconfigurations"}, "webhook", errors.New("no"))
		r.Refuse(func(request string) error {
			if strings.HasPrefix(request, "patch ") {
				return forbidden
			}
			return nil
		})

		r.Wait(59 * day)
		// Without its key, the CA is renewed at once. The serving certificate is due a day later.
		r.changeSecret(func(secret *corev1.Secret) { delete(secret.Data, "ca.key") })
		for range 72 {
			r.Wait(time.Hour)
			if err := accepts(r.bundles()[0], replica); err != nil {
				t.Fatalf("%s: %v", time.Now(), err)
			}
		}
		r.Refuse(nil)
		r.Wait(10 * time.Minute)

		certificate, err := replica.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		if age := time.Since(certificate.Leaf.NotBefore); age > 2*time.Hour {
			t.Errorf("the certificate is %v old", age)
		}
		if err := accepts(r.bundles()[0], replica); err != nil {
			t.Error(err)
		}
	})
}

func TestSecretIsRepaired(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Secret)
	}{
		{"empty", func(s *corev1.Secret) { s.Data = nil }},
		{"serving key of another certificate", func(s *corev1.Secret) { s.Data["tls.key"] = s.Data["ca.key"] }},
		{"CA key lost", func(s *corev1.Secret) { delete(s.Data, "ca.key") }},
		{"no PEM", func(s *corev1.Secret) { s.Data["tls.crt"] = []byte("x") }},
		{"CA lost", func(s *corev1.Secret) { delete(s.Data, "ca.crt") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				replica := r.replica(options)

				r.changeSecret(test.change)
				r.Wait(10 * time.Minute)

				secret := r.secret()
				if _, err := tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"]); err != nil {
					t.Error(err)
				}
				if _, err := tls.X509KeyPair(secret.Data["ca.crt"], secret.Data["ca.key"]); err != nil {
					t.Error(err)
				}
				for _, bundle := range r.bundles() {
					if err := accepts(bundle, replica); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

func TestNewHostsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		other := options
		other.Hosts = []string{"other.system.svc"}
		r.replica(other)
		r.Stop()

		replica := r.replica(options)

		if err := accepts(r.bundles()[0], replica); err != nil {
			t.Error(err)
		}
		if n := countCAs(r.bundles()[0]); n != 1 {
			t.Errorf("%d CAs, want the same one", n)
		}
	})
}

func TestNoCertificateYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.Refuse(func(request string) error {
			if request == createSecret {
				return errors.New("refused")
			}
			return nil
		})

		replica := r.replica(options)

		if _, err := replica.Certificate(); err == nil || !strings.Contains(err.Error(), "system/webhook-certificates") {
			t.Errorf("error = %v", err)
		}
		r.Refuse(nil)
		r.Wait(10 * time.Minute)
		if err := accepts(r.bundles()[0], replica); err != nil {
			t.Error(err)
		}
	})
}

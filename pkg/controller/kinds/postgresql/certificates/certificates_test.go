// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubefake "k8s.io/client-go/kubernetes/fake"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql/certificates"
	"github.com/example/demoapp-controller/test/expect"
)

// TestOnlyCertificatesAreCached: anyone who may create Secrets can set the label and the owner.
func TestOnlyCertificatesAreCached(t *testing.T) {
	api := databasev1.SchemeGroupVersion.String()
	tests := map[string]struct {
		name, label, ownerName, ownerAPI string
		size, want                       int
	}{
		"of a PostgreSQL":             {"db-tls", "db", "db", api, 1000, 4000},
		"without an owner":            {"db-tls", "db", "", "", 1000, 0},
		"another name":                {"other", "db", "db", api, 1000, 0},
		"another owner":               {"db-tls", "db", "other", api, 1000, 0},
		"another label":               {"db-tls", "other", "db", api, 1000, 0},
		"an owner of another group":   {"db-tls", "db", "db", "example.com/v1", 1000, 0},
		"values that are no keys":     {"db-tls", "db", "db", api, 5000, 5000},
		"values that are much larger": {"db-tls", "db", "db", api, 100000, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				kube := kubefake.NewClientset()
				w := controllertest.NewWorld(t, kube)
				secrets, err := certificates.New(w, kube)
				expect.NoError(t, err)
				w.Run(func(stop, _ context.Context) error { <-stop.Done(); return nil })
				secret := &corev1.Secret{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: test.name, Labels: map[string]string{databasev1.LabelCertificate: test.label}},
					Data:       map[string][]byte{"other": bytes.Repeat([]byte("x"), 1000)},
				}
				for _, key := range []string{"ca.crt", "ca.key", "tls.crt", "tls.key"} {
					secret.Data[key] = bytes.Repeat([]byte("x"), test.size)
				}
				if test.ownerName != "" {
					owner := &metav1.ObjectMeta{Name: test.ownerName, UID: "owner"}
					secret.OwnerReferences = []metav1.OwnerReference{child.Reference(owner, test.ownerAPI, "PostgreSQL")}
				}

				controllertest.Create(w, kube.CoreV1().Secrets("ns").Create, secret)

				cached, ok := secrets.Get("ns", test.name)
				expect.Equal(t, "cached", true, ok)
				size := 0
				for _, value := range cached.Data {
					size += len(value)
				}
				expect.Equal(t, "cached bytes", test.want, size)
			})
		})
	}
}

// TestChangedDomain: the certificate of an existing PostgreSQL gets the names of another domain of
// the cluster, and clients keep its CA.
func TestChangedDomain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubefake.NewClientset()
		w := controllertest.NewWorld(t, kube)
		secrets, err := certificates.New(w, kube)
		expect.NoError(t, err)
		w.Run(func(stop, _ context.Context) error { <-stop.Done(); return nil })
		owner := &metav1.ObjectMeta{Namespace: "ns", Name: "db", UID: "owner"}
		issue := func(domain naming.Domain) map[string][]byte {
			issued, err := secrets.Issue(t.Context(), owner, []string{"db"}, domain, time.Now())
			expect.NoError(t, err)
			return issued.Data
		}
		before := issue("cluster.local")
		controllertest.Create(w, kube.CoreV1().Secrets("ns").Create, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "db-tls", Labels: map[string]string{databasev1.LabelCertificate: "db"},
				OwnerReferences: []metav1.OwnerReference{child.Reference(owner, databasev1.SchemeGroupVersion.String(), "PostgreSQL")},
			},
			Data: before,
		})

		same, after := issue("cluster.local"), issue("corp.example.com")

		expect.Equal(t, "certificate of the same domain", string(before[corev1.TLSCertKey]), string(same[corev1.TLSCertKey]))
		expect.Equal(t, "CA", string(before["ca.crt"]), string(after["ca.crt"]))
		block, _ := pem.Decode(after[corev1.TLSCertKey])
		certificate, err := x509.ParseCertificate(block.Bytes)
		expect.NoError(t, err)
		for _, host := range []string{"db", "db.ns.svc", "db.ns.svc.corp.example.com"} {
			expect.NoError(t, certificate.VerifyHostname(host))
		}
	})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"os"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func TestCertificatesVerify(t *testing.T) {
	now := time.Now()
	ca, err := newAuthority("ca", now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority("other", now)
	if err != nil {
		t.Fatal(err)
	}
	server, err := ca.server("server", now, []net.IP{net.ParseIP(serviceIP)}, "kubernetes.default.svc")
	if err != nil {
		t.Fatal(err)
	}
	user, err := ca.client("jane", now, "admins")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		pair  keyPair
		ca    *authority
		dns   string
		usage x509.ExtKeyUsage
		valid bool
	}{
		{name: "server by address", pair: server, ca: ca, dns: "127.0.0.1", usage: x509.ExtKeyUsageServerAuth, valid: true},
		{name: "server by service address", pair: server, ca: ca, dns: serviceIP, usage: x509.ExtKeyUsageServerAuth, valid: true},
		{name: "server by name", pair: server, ca: ca, dns: "kubernetes.default.svc", usage: x509.ExtKeyUsageServerAuth, valid: true},
		{name: "server by another name", pair: server, ca: ca, dns: "example.com", usage: x509.ExtKeyUsageServerAuth},
		{name: "server of another authority", pair: server, ca: other, dns: "localhost", usage: x509.ExtKeyUsageServerAuth},
		{name: "client", pair: user, ca: ca, usage: x509.ExtKeyUsageClientAuth, valid: true},
		{name: "client as a server", pair: user, ca: ca, usage: x509.ExtKeyUsageServerAuth},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := tls.X509KeyPair(test.pair.certificate, test.pair.key); err != nil {
				t.Fatalf("key does not fit: %v", err)
			}
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(test.ca.certificatePEM)
			_, err := parseCertificate(t, test.pair.certificate).Verify(x509.VerifyOptions{
				Roots: roots, DNSName: test.dns, KeyUsages: []x509.ExtKeyUsage{test.usage},
			})
			if (err == nil) != test.valid {
				t.Errorf("verify: %v, want valid: %t", err, test.valid)
			}
		})
	}
	subject := parseCertificate(t, user.certificate).Subject
	if subject.CommonName != "jane" || len(subject.Organization) != 1 || subject.Organization[0] != "admins" {
		t.Errorf("subject %s", subject)
	}
}

func parseCertificate(t *testing.T, content []byte) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode(content)
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestWriteCredentials(t *testing.T) {
	inst, err := layout{cache: t.TempDir()}.instance("x")
	if err != nil {
		t.Fatal(err)
	}
	const server = "https://127.0.0.1:1234"
	creds, err := writeCredentials(inst, server, server, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if len(creds.certificate.Certificate) == 0 || len(creds.ca) == 0 {
		t.Error("no credentials for the supervisor")
	}
	content, err := os.ReadFile(inst.kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Certificate []byte `json:"client-certificate-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	if got := config.Clusters[0].Cluster; got.Server != server || !bytes.Equal(got.CA, creds.ca) {
		t.Errorf("cluster %+v", got)
	}
	subject := parseCertificate(t, config.Users[0].User.Certificate).Subject
	if subject.CommonName != admin || subject.Organization[0] != adminsGroup {
		t.Errorf("user %s", subject)
	}
	for _, path := range []string{inst.kubeconfig(), inst.pki("tokens.key"), inst.config("kwok.kubeconfig")} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want it readable by its owner only", path, info, err)
		}
	}
}

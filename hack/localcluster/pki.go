// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"
)

// certificateLifetime is longer than the life of any instance, even of a forgotten one.
const certificateLifetime = 365 * 24 * time.Hour

// clockSkew is how long before its creation a certificate becomes valid.
const clockSkew = 5 * time.Minute

// serviceNetwork is the range of cluster IPs. serviceIP is the cluster IP of the API server.
const (
	serviceNetwork = "10.96.0.0/16"
	serviceIP      = "10.96.0.1"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// certificatePEM is the certificate for clients that trust the authority.
	certificatePEM []byte
}

// keyPair is a certificate and its key, in PEM.
type keyPair struct {
	certificate, key []byte
}

// newAuthority returns a new self-signed authority.
func newAuthority(name string, now time.Time) (*authority, error) {
	template := certificateTemplate(pkix.Name{CommonName: name}, now)
	template.IsCA = true
	template.KeyUsage |= x509.KeyUsageCertSign
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", name, err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("create authority %s: %w", name, err)
	}
	return &authority{certificate: certificate, key: key, certificatePEM: encodePEM("CERTIFICATE", der)}, nil
}

// client issues a client certificate with a user's name and groups, in the form that Kubernetes
// reads.
func (a *authority) client(name string, now time.Time, groups ...string) (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: name, Organization: groups}, now)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return a.issue(template)
}

// server issues a certificate for a server on 127.0.0.1 with further names. It is a client
// certificate, too, since etcd connects to itself with it.
func (a *authority) server(name string, now time.Time, addresses []net.IP, names ...string) (keyPair, error) {
	template := certificateTemplate(pkix.Name{CommonName: name}, now)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1)}, addresses...)
	template.DNSNames = append([]string{"localhost"}, names...)
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (keyPair, error) {
	key, err := newKey()
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return keyPair{}, fmt.Errorf("issue certificate for %s: %w", template.Subject, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{certificate: encodePEM("CERTIFICATE", der), key: keyPEM}, nil
}

// certificateTemplate has no serial number: x509 then draws one.
func certificateTemplate(subject pkix.Name, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               subject,
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(certificateLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
	}
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return key, nil
}

// encodeKey returns key in the PEM form that all components read.
func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Keys of a Secret with the content of a [Material]. tls.crt and tls.key have the serving
// certificate.
const (
	CABundleKey = "ca.crt"
	CASignerKey = "ca.key"
)

const (
	caLifetime      = 365 * 24 * time.Hour
	servingLifetime = 90 * 24 * time.Hour
	// propagation is the time between the publication of a CA and its first use. Clients need less
	// time to read the bundle.
	propagation = time.Hour
)

// Material is a CA of its own, with a serving certificate that the CA has signed: the content of a
// Secret.
type Material struct {
	// authorities are the trusted CAs, the newest first.
	authorities []*x509.Certificate
	// signer is the key of the newest CA. It is nil if the key is not usable.
	signer *ecdsa.PrivateKey
	// serving is the serving certificate. It is nil if the certificate is not usable.
	serving *tls.Certificate
}

// ParseMaterial reads the content of the Secret. Invalid parts are omitted, so that they are
// renewed.
func ParseMaterial(data map[string][]byte) Material {
	m := Material{authorities: parseCertificates(data[CABundleKey])}
	if pair, err := tls.X509KeyPair(data[CABundleKey], data[CASignerKey]); err == nil {
		m.signer, _ = pair.PrivateKey.(*ecdsa.PrivateKey)
	}
	if pair, err := tls.X509KeyPair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey]); err == nil {
		if _, ok := pair.PrivateKey.(*ecdsa.PrivateKey); ok {
			m.serving = &pair
		}
	}
	return m
}

func parseCertificates(text []byte) []*x509.Certificate {
	var found []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if certificate, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, certificate)
		}
	}
	return found
}

// Encode returns the content of the Secret.
func (m Material) Encode() (map[string][]byte, error) {
	signer, signerErr := encodeKey(m.signer)
	key, ok := m.serving.PrivateKey.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("unexpected private key %T", m.serving.PrivateKey)
	}
	serving, servingErr := encodeKey(key)
	return map[string][]byte{
		CABundleKey:             m.Bundle(),
		CASignerKey:             signer,
		corev1.TLSCertKey:       encodeCertificate(m.serving.Leaf),
		corev1.TLSPrivateKeyKey: serving,
	}, errors.Join(signerErr, servingErr)
}

// Certificate returns the serving certificate. It is nil if the certificate is not usable.
func (m Material) Certificate() *tls.Certificate { return m.serving }

// Bundle returns the trusted CAs, the newest first.
func (m Material) Bundle() []byte {
	var text bytes.Buffer
	for _, ca := range m.authorities {
		text.Write(encodeCertificate(ca))
	}
	return text.Bytes()
}

func encodeCertificate(certificate *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Renewal has the changes of Renew.
type Renewal struct {
	Authority, Serving bool
}

// Renew returns the material after all renewals that are due at now, and the differences from m.
// published means that all clients have the bundle of m. Until then, a new CA signs nothing, unless
// there is no usable certificate.
func (m Material) Renew(name string, hosts []string, published bool, now time.Time) (Material, Renewal, error) {
	var done Renewal
	next := m
	next.authorities = slices.DeleteFunc(slices.Clone(m.authorities), func(ca *x509.Certificate) bool { return now.After(ca.NotAfter) })
	done.Authority = len(next.authorities) < len(m.authorities)
	if len(next.authorities) == 0 || next.signer == nil || !now.Before(renewalTime(next.authorities[0])) {
		ca, key, err := newAuthority(name, now)
		if err != nil {
			return m, Renewal{}, err
		}
		next.authorities, next.signer = slices.Insert(next.authorities, 0, ca), key
		done.Authority = true
	}
	switch {
	case !next.serves(hosts, now):
	case now.Before(renewalTime(next.serving.Leaf)):
		return next, done, nil
	case done.Authority || !published || now.Before(usableFrom(next.authorities[0])):
		return next, done, nil
	}
	serving, err := next.issue(name, hosts, now)
	if err != nil {
		return m, Renewal{}, err
	}
	next.serving, done.Serving = serving, true
	return next, done, nil
}

// Wake returns the next time at which Renew may change something.
func (m Material) Wake() time.Time {
	serving := renewalTime(m.serving.Leaf)
	if usable := usableFrom(m.authorities[0]); serving.Before(usable) {
		serving = usable
	}
	next := serving
	for i, ca := range m.authorities {
		due := ca.NotAfter.Add(time.Second)
		if i == 0 {
			due = renewalTime(ca)
		}
		if due.Before(next) {
			next = due
		}
	}
	return next
}

// renewalTime is the end of two thirds of the lifetime.
func renewalTime(certificate *x509.Certificate) time.Time {
	lifetime := certificate.NotAfter.Sub(certificate.NotBefore)
	return certificate.NotBefore.Add(lifetime / 3 * 2)
}

// usableFrom is the time from which a CA signs renewed certificates.
func usableFrom(ca *x509.Certificate) time.Time {
	return ca.NotBefore.Add(Backdate + propagation)
}

// serves reports whether clients that trust the bundle accept the serving certificate for all
// hosts.
func (m Material) serves(hosts []string, now time.Time) bool {
	if m.serving == nil {
		return false
	}
	roots := x509.NewCertPool()
	for _, ca := range m.authorities {
		roots.AddCert(ca)
	}
	if _, err := m.serving.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: now}); err != nil {
		return false
	}
	return !slices.ContainsFunc(hosts, func(host string) bool { return m.serving.Leaf.VerifyHostname(host) != nil })
}

func newAuthority(name string, now time.Time) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := NewKey()
	if err != nil {
		return nil, nil, err
	}
	template := NewTemplate(name+" CA", now, caLifetime)
	template.IsCA, template.BasicConstraintsValid, template.MaxPathLenZero = true, true, true
	template.KeyUsage = x509.KeyUsageCertSign
	ca, err := Sign(template, template, key, key)
	return ca, key, err
}

// issue returns a serving certificate that the newest CA has signed.
func (m Material) issue(name string, hosts []string, now time.Time) (*tls.Certificate, error) {
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	template := NewTemplate(name, now, servingLifetime)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	leaf, err := Sign(template, m.authorities[0], key, m.signer)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

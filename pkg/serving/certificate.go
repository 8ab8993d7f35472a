// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"time"
)

// Backdate is how long before its creation a certificate of [NewTemplate] begins to be valid. It
// makes new certificates valid on machines whose clocks are late.
const Backdate = time.Hour

// NewKey returns a new key for a certificate.
func NewKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	return key, nil
}

// NewTemplate returns a template without a serial number, for which x509 generates one.
func NewTemplate(name string, now time.Time, lifetime time.Duration) *x509.Certificate {
	begin := now.Add(-Backdate).UTC().Truncate(time.Second)
	return &x509.Certificate{Subject: pkix.Name{CommonName: name}, NotBefore: begin, NotAfter: begin.Add(lifetime)}
}

// Sign returns the certificate of a template and its key, signed by parent with the key signer.
func Sign(template, parent *x509.Certificate, key, signer *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate: %w", err)
	}
	return certificate, nil
}

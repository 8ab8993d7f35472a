// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// selfSignedLifetime is the lifetime of a self-signed certificate. After two thirds of it, a new one is made.
	selfSignedLifetime = 90 * 24 * time.Hour
	// backdate makes new certificates valid on machines whose clocks are late.
	backdate = time.Hour
)

// SelfSigned is a source of a certificate that is made in memory and signed by its own key. It encrypts a connection, but
// clients cannot tell the server by it.
type SelfSigned struct {
	hosts []string
	clock clock.PassiveClock

	mu      sync.Mutex
	renewAt time.Time
	current *tls.Certificate
}

// NewSelfSigned returns a source for DNS names.
func NewSelfSigned(clock clock.PassiveClock, hosts ...string) *SelfSigned {
	return &SelfSigned{hosts: hosts, clock: clock}
}

// Certificate returns the certificate, and makes a new one when it is due.
func (s *SelfSigned) Certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.current != nil && now.Before(s.renewAt) {
		return s.current, nil
	}
	made, err := selfSigned(s.hosts, now)
	if err != nil {
		return nil, err
	}
	s.current, s.renewAt = made, now.Add(selfSignedLifetime/3*2)
	return made, nil
}

func selfSigned(hosts []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	begin := now.Add(-backdate).UTC().Truncate(time.Second)
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "self-signed"}, DNSNames: hosts, NotBefore: begin, NotAfter: begin.Add(selfSignedLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the new certificate: %w", err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}

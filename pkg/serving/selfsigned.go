// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"crypto/tls"
	"crypto/x509"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// selfSignedLifetime is the lifetime of a self-signed certificate. After two thirds of it, a new
// one is made.
const selfSignedLifetime = 90 * 24 * time.Hour

// SelfSigned is a source of a certificate that is made in memory and signed by its own key. It
// encrypts a connection, but clients cannot verify the server by it.
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
	key, err := NewKey()
	if err != nil {
		return nil, err
	}
	template := NewTemplate("self-signed", now, selfSignedLifetime)
	template.DNSNames = hosts
	template.KeyUsage, template.ExtKeyUsage = x509.KeyUsageDigitalSignature, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	leaf, err := Sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

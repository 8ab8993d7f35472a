// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// reloadInterval is the least time between two reads of the files.
const reloadInterval = 10 * time.Second

// Files is a source of the certificate in the files tls.crt and tls.key of a directory. The files
// are read when a connection needs them, at most once in ten seconds. While they are not usable,
// the last usable certificate is served.
type Files struct {
	directory string
	clock     clock.PassiveClock

	mu       sync.Mutex
	read     time.Time
	text     [2][]byte
	usable   *tls.Certificate
	complain error
}

// NewFiles returns a source for a directory. It returns an error if there is no usable certificate.
func NewFiles(directory string, clock clock.PassiveClock) (*Files, error) {
	f := &Files{directory: directory, clock: clock}
	_, err := f.Certificate()
	return f, err
}

// Certificate returns the certificate of the files.
func (f *Files) Certificate() (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.clock.Now(); f.read.IsZero() || now.Sub(f.read) >= reloadInterval {
		f.read = now
		if f.complain = f.reload(); f.complain != nil && f.usable != nil {
			klog.Background().Error(f.complain, "The files of a serving certificate are not usable, so the last certificate stays",
				"directory", f.directory)
		}
	}
	if f.usable != nil {
		return f.usable, nil
	}
	return nil, f.complain
}

// reload reads the files and uses them if they have changed and fit each other.
func (f *Files) reload() error {
	var text [2][]byte
	for i, name := range []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		content, err := os.ReadFile(filepath.Clean(filepath.Join(f.directory, name)))
		if err != nil {
			return fmt.Errorf("reading the serving certificate: %w", err)
		}
		text[i] = content
	}
	if bytes.Equal(text[0], f.text[0]) && bytes.Equal(text[1], f.text[1]) {
		return nil
	}
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("reading the serving certificate in %s: %w", f.directory, err)
	}
	f.text, f.usable = text, &pair
	return nil
}

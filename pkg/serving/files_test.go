// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package serving_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/serving"
)

// pairs returns two certificates with their keys.
func pairs(t *testing.T) (first, second map[string][]byte) {
	t.Helper()
	var found []map[string][]byte
	for range 2 {
		made, err := serving.NewSelfSigned(clock.RealClock{}, "localhost").Certificate()
		if err != nil {
			t.Fatal(err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(made.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, map[string][]byte{
			"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]}),
			"tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
		})
	}
	return found[0], found[1]
}

func write(t *testing.T, directory, certificate string, certificates, keys map[string][]byte) {
	t.Helper()
	for name, content := range map[string][]byte{certificate: certificates["tls.crt"], "tls.key": keys["tls.key"]} {
		if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFilesAreReloaded(t *testing.T) {
	first, second := pairs(t)
	directory := t.TempDir()
	write(t, directory, "tls.crt", first, first)
	now := testingclock.NewFakePassiveClock(time.Now())
	files, err := serving.NewFiles(directory, now)
	if err != nil {
		t.Fatal(err)
	}
	serial := func() string {
		t.Helper()
		now.SetTime(now.Now().Add(time.Minute))
		certificate, err := files.Certificate()
		if err != nil {
			t.Fatal(err)
		}
		return certificate.Leaf.SerialNumber.String()
	}
	before := serial()

	// The pair is replaced file by file.
	write(t, directory, "tls.crt", second, first)
	between := serial()
	write(t, directory, "tls.crt", second, second)
	after := serial()

	if between != before {
		t.Error("a certificate without its key is served")
	}
	if after == before {
		t.Error("the new certificate is not served")
	}
}

func TestFilesMustExist(t *testing.T) {
	if _, err := serving.NewFiles(t.TempDir(), clock.RealClock{}); err == nil {
		t.Error("no error without files")
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package certificates_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/webhook/certificates"
)

// pairs returns two certificates with their keys.
func pairs(t *testing.T) (first, second map[string][]byte) {
	t.Helper()
	var found []map[string][]byte
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.replica(options)
			found = append(found, r.secret().Data)
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
	files, err := certificates.NewFiles(directory, now)
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
	if _, err := certificates.NewFiles(t.TempDir(), clock.RealClock{}); err == nil {
		t.Error("no error without files")
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// storageBreak is how long etcd does not answer. It is shorter than the operator's renew deadline.
	storageBreak = 5 * time.Second
	// storagePeriod is the time from the begin of a break to that of the next.
	storagePeriod = 10 * time.Second
)

// TestStorageFails plays all subjects while etcd stops again and again, and loses its history after
// each break.
func TestStorageFails(t *testing.T) {
	playAllUndisturbed(t)
	etcd := newStorage(t)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(ctx context.Context) { etcd.fail(ctx, t) }, storagePeriod-storageBreak)
	}()
	t.Run("subjects", func(t *testing.T) { playAllDisturbed(t, ofFault) })
	end()
	<-ended
	if etcd.breaks == 0 {
		t.Error("etcd has never stopped")
	}
	t.Logf("etcd stopped %d times", etcd.breaks)
}

// storage is the etcd of the control plane.
type storage struct {
	process *os.Process
	url     string
	client  *http.Client
	breaks  int
}

// newStorage finds the process of etcd and its address.
func newStorage(t *testing.T) *storage {
	t.Helper()
	dir := shared.Dir()
	var state struct {
		Components []struct {
			Name string `json:"name"`
			PID  int    `json:"pid"`
		} `json:"components"`
	}
	if err := json.Unmarshal(readFile(t, filepath.Join(dir, "state.json")), &state); err != nil {
		t.Fatal(err)
	}
	pki := func(name string) string { return filepath.Join(dir, "pki", name) }
	pair, err := tls.LoadX509KeyPair(pki("etcd-client.crt"), pki("etcd-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(readFile(t, pki("etcd-ca.crt")))
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots}
	for _, component := range state.Components {
		if component.Name != "etcd" {
			continue
		}
		process, err := os.FindProcess(component.PID)
		if err != nil {
			t.Fatal(err)
		}
		for argument := range bytes.SplitSeq(readFile(t, fmt.Sprintf("/proc/%d/cmdline", component.PID)), []byte{0}) {
			if url, ok := strings.CutPrefix(string(argument), "--advertise-client-urls="); ok {
				return &storage{process: process, url: url, client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}}
			}
		}
	}
	t.Fatal("the control plane has no etcd")
	return nil
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// fail stops etcd for a time, and then removes its history.
func (s *storage) fail(ctx context.Context, t *testing.T) {
	t.Helper()
	if err := s.process.Signal(syscall.SIGSTOP); err != nil {
		t.Error(err)
		return
	}
	select {
	case <-time.After(storageBreak):
	case <-ctx.Done():
	}
	if err := s.process.Signal(syscall.SIGCONT); err != nil {
		t.Error(err)
		return
	}
	s.breaks++
	if err := s.compact(ctx); err != nil && ctx.Err() == nil {
		t.Errorf("compact etcd: %v", err)
	}
}

// compact removes all revisions but the present one.
func (s *storage) compact(ctx context.Context) error {
	var found struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	if err := s.post(ctx, "/v3/kv/range", map[string]any{"key": "AA==", "keys_only": true, "limit": 1}, &found); err != nil {
		return err
	}
	return s.post(ctx, "/v3/kv/compaction", map[string]any{"revision": found.Header.Revision}, nil)
}

// post calls etcd's gRPC gateway.
func (s *storage) post(ctx context.Context, path string, body, answer any) error {
	content, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %s", path, response.Status)
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

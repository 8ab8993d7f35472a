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
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/example/demoapp-controller/test/cluster"
)

const (
	// storageBreak is how long etcd does not answer. It is shorter than the operator's renew deadline.
	storageBreak = 5 * time.Second
	// storagePause is the time between two faults.
	storagePause = 5 * time.Second
)

// TestStorageFails plays all subjects while etcd, in turn, stops for a time and is restarted, and
// loses its history after each break.
func TestStorageFails(t *testing.T) {
	playAllUndisturbed(t)
	etcd := newStorage(t)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(ctx context.Context) { etcd.fail(ctx, t) }, storagePause)
	}()
	t.Run("subjects", func(t *testing.T) { playAllDisturbed(t, ofFault) })
	end()
	<-ended
	if etcd.stops == 0 || etcd.restarts == 0 {
		t.Errorf("etcd stopped %d times and was restarted %d times", etcd.stops, etcd.restarts)
	}
	t.Logf("etcd stopped %d times and was restarted %d times", etcd.stops, etcd.restarts)
}

// storage is the etcd of the control plane.
type storage struct {
	url             string
	client          *http.Client
	stops, restarts int
}

// newStorage finds etcd and its address.
func newStorage(t *testing.T) *storage {
	t.Helper()
	pki := func(name string) string { return filepath.Join(shared.Dir(), "pki", name) }
	pair, err := tls.LoadX509KeyPair(pki("etcd-client.crt"), pki("etcd-client.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(readFile(t, pki("etcd-ca.crt")))
	config := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, RootCAs: roots}
	pid, err := shared.EtcdPID()
	if err != nil {
		t.Fatal(err)
	}
	for argument := range bytes.SplitSeq(readFile(t, fmt.Sprintf("/proc/%d/cmdline", pid)), []byte{0}) {
		if url, ok := strings.CutPrefix(string(argument), "--advertise-client-urls="); ok {
			return &storage{url: url, client: &http.Client{Transport: &http.Transport{TLSClientConfig: config}}}
		}
	}
	t.Fatal("etcd has no address")
	return nil
}

// fail stops or restarts etcd, in turn, and then removes its history.
func (s *storage) fail(ctx context.Context, t *testing.T) {
	t.Helper()
	var err error
	if s.stops > s.restarts {
		s.restarts++
		// The end of the test does not interrupt the restart: the cluster serves other tests.
		err = shared.RestartEtcd(context.WithoutCancel(ctx))
	} else {
		s.stops++
		err = s.stop(ctx)
	}
	if err == nil {
		err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, cluster.DefaultTimeout, true, func(ctx context.Context) (bool, error) {
			// A restarted etcd does not answer at first.
			return s.compact(ctx) == nil, nil
		})
	}
	if err != nil && ctx.Err() == nil {
		t.Errorf("break etcd: %v", err)
	}
}

// stop stops etcd for a time.
func (s *storage) stop(ctx context.Context) error {
	pid, err := shared.EtcdPID()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	select {
	case <-time.After(storageBreak):
	case <-ctx.Done():
	}
	return syscall.Kill(pid, syscall.SIGCONT)
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

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/test/cluster"
)

// TestFullChartCache changes watches.yaml to a chart of a server while the disk of the cache is
// full. The chart so far stays in use, and the operator says why. When the disk has space, the
// release gets the new chart.
func TestFullChartCache(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a retry")
	}
	ctx := context.WithoutCancel(t.Context())
	disk := mountSmallDisk(t)
	count(t, 1)
	local := filepath.Join(shared.Root(), "examples", "hybrid", "charts", "memcached")
	remote := serveChart(t, local, "9.9.9")
	file := filepath.Join(t.TempDir(), "watches.yaml")
	writeEntry(t, file, local)
	operator.StopOrderly(t)
	own := cluster.Launch{Args: []string{"--watches-file=" + file, "--chart-cache-dir=" + disk}}
	running := own.Start(ctx, t, shared).AwaitReady(ctx, t)
	t.Cleanup(func() {
		running.Stop()
		operator = launch.Start(ctx, mainTest, shared).AwaitReady(ctx, mainTest)
	})
	s, namespace := subjects["Memcached"], shared.Namespace(t)
	object := apply(ctx, t, namespace, s.object)[0]
	shared.AwaitReady(ctx, t, namespace, object)
	client := clientOf(t, object, namespace)

	empty := fill(t, disk)
	writeEntry(t, file, remote)
	cluster.Eventually(ctx, t, "the operator says that the disk is full", func(context.Context) (bool, error) {
		return strings.Contains(running.Log(), "no space left on device"), nil
	})
	if _, err := client.Patch(ctx, "web", types.MergePatchType, []byte(s.change), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	shared.AwaitReady(ctx, t, namespace, object)
	empty()

	cluster.Eventually(ctx, t, "the release has the new chart", func(ctx context.Context) (bool, error) {
		live, err := client.Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		version, _, err := unstructured.NestedString(live.Object, "status", "deployedRelease", "chartVersion")
		return version == "9.9.9", err
	})
	shared.AwaitReady(ctx, t, namespace, object)
}

// mountSmallDisk returns a folder that is a file system of its own, with 1 MiB. It skips the test
// if the user may not mount file systems.
func mountSmallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("chaos", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("run this test as root: it mounts a disk that it can fill: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill fills a disk until the call of empty.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	name := filepath.Join(dir, "full")
	if err := os.WriteFile(name, make([]byte, 2<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// writeEntry writes a watches file whose only kind has a chart.
func writeEntry(t *testing.T, file, chart string) {
	t.Helper()
	entry := fmt.Sprintf("- {group: cache.my.domain, version: v1, kind: Memcached, chart: %q}\n", chart)
	if err := os.WriteFile(file, []byte(entry), 0o600); err != nil {
		t.Fatal(err)
	}
}

// serveChart serves a chart with another version, and returns its reference.
func serveChart(t *testing.T, dir, version string) string {
	t.Helper()
	root := filepath.Dir(copyChart(t, dir, version))
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	if err := errors.Join(archive.AddFS(os.DirFS(root)), archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(packed.Bytes()) // The client may have given up.
	}))
	t.Cleanup(server.Close)
	return fmt.Sprintf("%s/%s-%s.tgz", server.URL, filepath.Base(dir), version)
}

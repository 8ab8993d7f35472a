// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
)

const (
	interval = 3 * time.Second
	redis    = "- {version: v1, kind: Redis, chart: c}"
	nginx    = "- {version: v1, kind: Nginx, chart: c}"
)

// watch is a running Watcher.
type watch struct {
	path  string
	clock *clocktesting.FakeClock
	// changes are the calls of Run's function: kinds, or an error.
	changes []string
}

// startWatch loads a file with redis, and runs its Watcher until the end of the test. It is called
// in a bubble of synctest.
func startWatch(t *testing.T, path string) *watch {
	t.Helper()
	w := &watch{path: path, clock: clocktesting.NewFakeClock(time.Unix(0, 0))}
	watcher := &file.Watcher{Path: path, Env: environment, Interval: interval, Clock: w.clock}
	entries, err := watcher.Load()
	if got := summary(entries, err); got != "Redis" {
		t.Fatalf("got %s from Load, want Redis", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		watcher.Run(ctx, func(entries []file.Entry, err error) { w.changes = append(w.changes, summary(entries, err)) })
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
	return w
}

// summary has the kinds of the entries, or the error without the folder of the test.
func summary(entries []file.Entry, err error) string {
	if err != nil {
		before, after, _ := strings.Cut(fmt.Sprint(err), "open /")
		_, after, _ = strings.Cut(after, ": ")
		return strings.TrimSuffix(before+after, ": ")
	}
	var kinds []string
	for _, entry := range entries {
		kinds = append(kinds, entry.GroupVersionKind.Kind)
	}
	return strings.Join(kinds, " ")
}

// poll lets the watcher read the file, and returns its report.
func (w *watch) poll() []string {
	w.changes = nil
	w.clock.Step(interval)
	synctest.Wait()
	return w.changes
}

func (w *watch) write(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// assertPolls checks the reports of the following polls, one item each; empty for nothing.
func (w *watch) assertPolls(t *testing.T, want ...string) {
	t.Helper()
	for i, expected := range want {
		if diff := cmp.Diff(expected, strings.Join(w.poll(), "; ")); diff != "" {
			t.Errorf("poll %d (-want +got):\n%s", i+1, diff)
		}
	}
}

func newFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fileName)
	if err := os.WriteFile(path, []byte(redis), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// inBubble runs a test with a Watcher of a file.
func inBubble(t *testing.T, test func(*testing.T, *watch)) {
	t.Helper()
	path := newFile(t)
	synctest.Test(t, func(t *testing.T) { test(t, startWatch(t, path)) })
}

func TestWatchUnchanged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *watch) {
		w.assertPolls(t, "", "")
		w.write(t, redis) // Another time of modification, and the same content.
		w.assertPolls(t, "", "", "")
	})
}

// TestWatchChanged: a new content is reported once, when two polls have read it.
func TestWatchChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, w *watch) {
		w.write(t, redis+"\n"+nginx)
		w.assertPolls(t, "", "Redis Nginx", "", "")

		w.write(t, "[]")
		w.assertPolls(t, "", "", "")
	})
}

// TestWatchBroken: an invalid version is reported once, without the entries that are valid, and the
// return of the earlier version is reported, too.
func TestWatchBroken(t *testing.T) {
	const invalid = "watches.yaml:2: entry 2: must be an object (key: value), got the text \"x\""
	inBubble(t, func(t *testing.T, w *watch) {
		w.write(t, nginx+"\n- x")
		w.assertPolls(t, "", invalid, "", "")

		w.write(t, redis)
		w.assertPolls(t, "", "Redis", "")
	})
}

// TestWatchTruncatedWrite: a version that is there for less than two polls is not reported.
func TestWatchTruncatedWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, w *watch) {
		w.write(t, "")
		w.assertPolls(t, "")
		w.write(t, redis+"\n- {ver")
		w.assertPolls(t, "")
		w.write(t, redis+"\n"+nginx)
		w.assertPolls(t, "", "Redis Nginx", "")

		w.write(t, redis)
		w.assertPolls(t, "")
		w.write(t, redis+"\n"+nginx)
		w.assertPolls(t, "", "", "")
	})
}

// TestWatchEmptied: an empty file is an error, so that a write that failed does not stop all kinds.
func TestWatchEmptied(t *testing.T) {
	inBubble(t, func(t *testing.T, w *watch) {
		w.write(t, "")
		w.assertPolls(t, "", "watches.yaml: is empty; write [] if nothing is to be watched", "")
	})
}

// TestWatchDeleted: a file that is absent is reported once, and so is its return.
func TestWatchDeleted(t *testing.T) {
	inBubble(t, func(t *testing.T, w *watch) {
		if err := os.Remove(w.path); err != nil {
			t.Fatal(err)
		}
		w.assertPolls(t, "", "watches.yaml: cannot be read: no such file or directory", "", "")

		w.write(t, redis)
		w.assertPolls(t, "", "Redis", "")
	})
}

// TestWatchTooLarge: a file beyond the limit is reported once, although it is not read to its end.
func TestWatchTooLarge(t *testing.T) {
	inBubble(t, func(t *testing.T, w *watch) {
		w.write(t, redis+strings.Repeat("\n", file.MaxBytes))
		w.assertPolls(t, "", "watches.yaml: has more than 1048576 bytes; make it smaller", "")
	})
}

// TestWatchConfigMap: the kubelet replaces the files of a ConfigMap by the swap of the symbolic
// link ..data.
func TestWatchConfigMap(t *testing.T) {
	folder := t.TempDir()
	swap := func(version, text string) {
		data := filepath.Join(folder, version)
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(data, fileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(version, filepath.Join(folder, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(folder, "..data_tmp"), filepath.Join(folder, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1", redis)
	if err := os.Symlink(filepath.Join("..data", fileName), filepath.Join(folder, fileName)); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := startWatch(t, filepath.Join(folder, fileName))

		swap("..2", nginx)
		w.assertPolls(t, "", "Nginx", "")

		if err := os.RemoveAll(filepath.Join(folder, "..1")); err != nil {
			t.Fatal(err)
		}
		w.assertPolls(t, "", "")
	})
}

// TestLoadErrors: Load returns the errors of the file.
func TestLoadErrors(t *testing.T) {
	broken := newFile(t)
	if err := os.WriteFile(broken, []byte(redis+"\n- x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, path, want string }{
		{"absent", filepath.Join(t.TempDir(), "absent.yaml"), "absent.yaml: cannot be read: open "},
		{"folder", t.TempDir(), "cannot be read: read "},
		{"broken", broken, "watches.yaml:2: entry 2: must be an object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			watcher := &file.Watcher{Path: test.path, Env: environment}

			_, err := watcher.Load()

			if !strings.Contains(fmt.Sprint(err), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

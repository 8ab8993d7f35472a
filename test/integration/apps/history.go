// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package apps

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// Version is one version of a DemoApp.
type Version struct {
	// Seen is the time of the watch event.
	Seen time.Time
	// App is the DemoApp; when Deleted, its last state.
	App *v1alpha1.DemoApp
	// Deleted says that the DemoApp is gone.
	Deleted bool
}

// history has all watch events of the DemoApps of a namespace.
type history struct {
	mu       sync.Mutex
	versions map[string][]Version
	written  map[string]written
	// changed is closed when a version is added.
	changed chan struct{}
}

// written identifies the test's own last write: an older version does not count as the latest.
type written struct {
	uid        types.UID
	generation int64
}

func newHistory() *history {
	return &history{versions: map[string][]Version{}, written: map[string]written{}, changed: make(chan struct{})}
}

func (h *history) add(app *v1alpha1.DemoApp, deleted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[app.Name] = append(h.versions[app.Name], Version{Seen: time.Now(), App: app, Deleted: deleted})
	close(h.changed)
	h.changed = make(chan struct{})
}

// wrote records a write of the test, after which older versions are no longer the latest.
func (h *history) wrote(app *v1alpha1.DemoApp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written[app.Name] = written{uid: app.UID, generation: app.Generation}
}

// latest returns the newest version, and a channel that is closed when a newer one exists. There is
// no newest version until the watch has shown the test's own last write.
func (h *history) latest(name string) (version Version, ok bool, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	versions, own := h.versions[name], h.written[name]
	if len(versions) == 0 {
		return Version{}, false, h.changed
	}
	version = versions[len(versions)-1]
	if own.uid != "" && (version.App.UID != own.uid || version.App.Generation < own.generation) {
		return Version{}, false, h.changed
	}
	return version, true, h.changed
}

func (h *history) all(name string) []Version {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.versions[name])
}

func (h *history) everything() map[string][]Version {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.versions)
}

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
	// Seen is when the watch told of it.
	Seen time.Time
	// App is the DemoApp; when Deleted, as it was last.
	App *v1alpha1.DemoApp
	// Deleted says that the DemoApp is gone.
	Deleted bool
}

// history is all that a watch told of the DemoApps of a namespace.
type history struct {
	mu       sync.Mutex
	versions map[string][]Version
	written  map[string]written
	// news is closed when a version comes.
	news chan struct{}
}

// written is what a version must have to be the test's own last write, or later.
type written struct {
	uid        types.UID
	generation int64
}

func newHistory() *history {
	return &history{versions: map[string][]Version{}, written: map[string]written{}, news: make(chan struct{})}
}

func (h *history) add(app *v1alpha1.DemoApp, deleted bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.versions[app.Name] = append(h.versions[app.Name], Version{Seen: time.Now(), App: app, Deleted: deleted})
	close(h.news)
	h.news = make(chan struct{})
}

// wrote notes what the test wrote: older versions are no longer the latest.
func (h *history) wrote(app *v1alpha1.DemoApp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.written[app.Name] = written{uid: app.UID, generation: app.Generation}
}

// latest returns the newest version, and a channel that is closed when there is a newer one. There is none as long as
// the test's own last write has not come back.
func (h *history) latest(name string) (version Version, ok bool, news <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	versions, own := h.versions[name], h.written[name]
	if len(versions) == 0 {
		return Version{}, false, h.news
	}
	version = versions[len(versions)-1]
	if own.uid != "" && (version.App.UID != own.uid || version.App.Generation < own.generation) {
		return Version{}, false, h.news
	}
	return version, true, h.news
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

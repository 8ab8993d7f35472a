// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/ssa"
)

const (
	// lostAfter is the time for which a filled watch may fail before its kind counts as unobserved.
	lostAfter = 30 * time.Second
	// firstListAfter is the time for which the API server may put off the first list of a kind. An API
	// server that starts fills its own caches in this time.
	firstListAfter = 10 * time.Second
	// reviewInterval is the time between two reviews of the failing watches.
	reviewInterval = time.Second
)

// watchFailure holds the newest error with which the API server has refused to list or watch a kind.
type watchFailure struct {
	// refused is closed by the first such error.
	refused chan struct{}

	mu  sync.Mutex
	err error
	// since is the time of the first error after version, which the caches had then.
	since   time.Time
	version string
	// putOff is the time of the first of the answers, up to the newest one, by which the API server put
	// off the request; zero if the newest one did not.
	putOff time.Time
	// lost says that the watch was filled and has failed for lostAfter.
	lost bool
	// told says that a release has learned that the kind is unobserved.
	told bool
}

// isRefusal reports whether an error is an answer of the API server about the kind. Other errors say
// that a server cannot be reached or has too much to do, see answered, or end a watch as usual.
func isRefusal(err error) bool {
	var answer apierrors.APIStatus
	return errors.As(err, &answer) && answer.Status().Code != http.StatusGone && !ssa.IsPutOff(int(answer.Status().Code))
}

// answered notes the code of an answer to a list or watch of the kind. It reports whether the API
// server has put off all requests for so long that the kind cannot be observed. A busy API server puts
// off requests for other kinds, too, but not for as long.
func (k *watchedKind) answered(code int) (unobserved bool) {
	synced, f := k.hasSynced(), k.failure
	f.mu.Lock()
	defer f.mu.Unlock()
	if !ssa.IsPutOff(code) {
		if synced && !f.putOff.IsZero() && errors.Is(f.err, ErrNotSynced) {
			f.err = nil
		}
		f.putOff = time.Time{}
		return false
	}
	if f.putOff.IsZero() {
		f.putOff = time.Now()
	}
	limit := firstListAfter
	if synced {
		limit = lostAfter
	}
	if time.Since(f.putOff) < limit {
		return false
	}
	f.since, f.version = f.putOff, k.version()
	f.err = fmt.Errorf("%w: the API server has answered %d %s for %v", ErrNotSynced, code, http.StatusText(code), limit)
	f.refuse()
	return true
}

// refuse ends waits for the first list.
func (f *watchFailure) refuse() {
	select {
	case <-f.refused:
	default:
		close(f.refused)
	}
}

// failed notes an error of a list or watch of the kind.
func (k *watchedKind) failed(err error) {
	if !isRefusal(err) {
		return
	}
	f := k.failure
	f.mu.Lock()
	defer f.mu.Unlock()
	if version := k.version(); f.err == nil || f.version != version {
		f.since, f.version = time.Now(), version
	}
	f.err = err
	f.refuse()
}

// version identifies the events that the API server has sent so far.
func (k *watchedKind) version() string {
	var versions []string
	for _, informer := range k.informers {
		versions = append(versions, informer.LastSyncResourceVersion())
	}
	return fmt.Sprint(versions)
}

// review updates the failure of the kind. It reports whether the users of the kind must learn of a
// change, and whether the kind has to be reviewed again.
func (k *watchedKind) review() (changed, again bool) {
	synced, f := k.hasSynced(), k.failure
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !synced:
		return false, f.told || f.err != nil
	case f.err == nil || f.version != k.version(): // The kind was listed or watched since.
		changed = f.told
		f.err, f.lost, f.told = nil, false, false
		return changed, false
	case !f.lost && time.Since(f.since) >= lostAfter:
		f.lost, f.told = true, true
		return true, true
	default:
		return false, true
	}
}

// unobserved returns why the objects of the kind cannot be observed now; nil if they can be observed,
// or if the first list is still expected.
func (k *watchedKind) unobserved() error {
	synced, f := k.hasSynced(), k.failure
	f.mu.Lock()
	defer f.mu.Unlock()
	var err error
	switch {
	case synced && !f.lost:
		return nil
	case f.err != nil:
		err = f.err
		var answer *apierrors.StatusError
		if errors.As(err, &answer) {
			err = answer // Drop the text that client-go adds.
		}
	case time.Since(k.created) >= SyncTimeout:
		err = fmt.Errorf("%w: the API server has not listed the objects within %v", ErrNotSynced, SyncTimeout)
	default:
		return nil
	}
	return err
}

// tell records that a release learns that the kind is unobserved.
func (k *watchedKind) tell() {
	k.failure.mu.Lock()
	defer k.failure.mu.Unlock()
	k.failure.told = true
}

// Unobserved returns why the objects of a kind cannot be observed now; nil if they can be observed or
// are not watched. A change of the answer starts a pass of the releases that use the kind.
func (w *Watcher) Unobserved(mapping *meta.RESTMapping) error {
	w.mu.Lock()
	kind, ok := w.kinds[mapping.Resource]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	err := kind.unobserved()
	if err != nil {
		kind.tell()
		w.wakeUp()
	}
	return err
}

// reviewAll reviews all kinds, and notifies the releases that use a changed kind. It reports
// whether a kind has to be reviewed again.
func (w *Watcher) reviewAll() bool {
	var (
		releases []cache.ObjectName
		again    bool
	)
	w.mu.Lock()
	for _, kind := range w.kinds {
		changed, once := kind.review()
		if changed {
			releases = append(releases, kind.users.UnsortedList()...)
		}
		again = again || once
	}
	w.mu.Unlock()
	for _, release := range releases {
		w.observable(release)
	}
	return again
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

const (
	// settleRetry is the time between two reads of the API server after its kinds changed.
	// Discovery shows a new CRD about a second after its event.
	settleRetry = time.Second
	// settleTime is the time after a change in which settleRetry applies.
	settleTime = 15 * time.Second
	// waitRetry is the time between two looks otherwise.
	waitRetry = 5 * time.Minute
)

// Kinds is the part of a [Cache] that a follower uses.
type Kinds interface {
	// Resource returns the resource of a kind. The error is a meta.NoKindMatchError if the API server
	// does not serve the kind.
	Resource(kind schema.GroupVersionKind) (Resource, error)
	// Subscribe registers a function that is called when the kinds of the API server may have
	// changed. It must not block.
	Subscribe(subscriber func())
}

// Config configures a [Follower]. All fields are required.
type Config struct {
	Kinds Kinds
	Clock clock.WithTicker
	// Waiting is called when a kind begins or ends to wait.
	Waiting func(name string, waiting bool)
}

// Follower follows kinds of the API server. It is safe for concurrent use.
type Follower struct {
	Config

	mu   sync.Mutex
	wake sets.Set[chan struct{}]
}

// New returns a follower.
func New(config Config) *Follower {
	f := &Follower{Config: config, wake: sets.New[chan struct{}]()}
	config.Kinds.Subscribe(f.kindsChanged)
	return f
}

func (f *Follower) kindsChanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for wake := range f.wake {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// Target is a kind to follow.
type Target struct {
	// Name names the kind in logs and metrics.
	Name string
	Kind schema.GroupVersionKind
	// Revision identifies the configuration of the target, see [Runner.Update].
	Revision string
	// Check returns an error if the kind cannot run with the resource. Optional.
	Check func(Resource) error
	// Run runs the controller until stop or lead ends. It calls synced when its caches are
	// filled. An error means that it could not start. It is called again later.
	Run func(stop, lead context.Context, resource Resource, synced func()) error
}

// Follow runs a target whenever the API server serves its kind, until stop or lead ends. If
// the API server serves the kind otherwise or not at all, stop of Target.Run ends.
func (f *Follower) Follow(stop, lead context.Context, target Target) {
	logger := klog.LoggerWithValues(klog.FromContext(lead), "kind", target.Name)
	wake := make(chan struct{}, 1)
	f.mu.Lock()
	f.wake.Insert(wake)
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.wake.Delete(wake)
		f.Waiting(target.Name, false)
	}()
	said, changed := "", f.Clock.Now()
	for stop.Err() == nil && lead.Err() == nil {
		err := f.runOnce(stop, lead, target, wake)
		if err == nil {
			said, changed = "", f.Clock.Now()
			continue
		}
		f.Waiting(target.Name, true)
		if err.Error() != said && lead.Err() == nil {
			said = err.Error()
			logger.Info("A kind waits", "because", err)
		}
		delay := waitRetry
		if f.Clock.Since(changed) < settleTime {
			delay = settleRetry
		}
		select {
		case <-wake:
			changed = f.Clock.Now()
		case <-f.Clock.After(delay):
		case <-stop.Done():
		case <-lead.Done():
		}
	}
}

// runOnce runs a target until stop or lead ends, or until the API server serves the kind
// otherwise or not at all.
func (f *Follower) runOnce(stop, lead context.Context, target Target, wake <-chan struct{}) error {
	resource, err := f.resource(target)
	if err != nil {
		return err
	}
	f.Waiting(target.Name, true) // The operator may not be allowed to watch the kind.
	ctx, end := context.WithCancel(stop)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() {
		defer end()
		f.awaitChange(ctx, target, resource, wake)
	})
	return target.Run(ctx, lead, resource, func() { f.Waiting(target.Name, false) })
}

// awaitChange returns when ctx ends, or when the API server serves the kind otherwise or not
// at all. It looks several times after a change, because discovery follows with a delay.
func (f *Follower) awaitChange(ctx context.Context, target Target, resource Resource, wake <-chan struct{}) {
	looks := 0
	for {
		var again <-chan time.Time
		if looks > 0 {
			again = f.Clock.After(settleRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
			looks = int(settleTime / settleRetry)
		case <-again:
			looks--
		}
		if now, err := f.resource(target); meta.IsNoMatchError(err) || err == nil && now != resource {
			return
		}
	}
}

// resource returns how the API server serves a kind, or an error that says what to do.
func (f *Follower) resource(target Target) (Resource, error) {
	resource, err := f.Kinds.Resource(target.Kind)
	if meta.IsNoMatchError(err) {
		return Resource{}, fmt.Errorf("the API server does not serve %s, install its CRD: %w", target.Kind, err)
	}
	if err != nil {
		return Resource{}, err
	}
	if target.Check != nil {
		return resource, target.Check(resource)
	}
	return resource, nil
}

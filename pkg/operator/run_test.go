// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/example/demoapp-controller/pkg/controller"
)

// newProcess returns a process with one kind that can start at once. Its parts record their actions
// in j.
func newProcess(j *journal, synced *bool, controllers ...Controller) *process {
	return &process{
		endpoints:       []Service{j.service("http")},
		ready:           &readiness{},
		shutdownTimeout: 25 * time.Second,
		prepare: func(context.Context) (*assembly, error) {
			j.note("prepared")
			kind := Kind{Name: "demoapp", Build: func(env *Environment) error {
				service := j.service("informers")
				env.AddService(service.Name, service.Run)
				for _, c := range controllers {
					env.AddController(c.Name, c.Run, controller.NamedSync{Name: "demoapps", HasSynced: func() bool { return *synced }})
				}
				return nil
			}}
			return newAssembly(j, []Kind{kind}, nil, nil), nil
		},
	}
}

// newAssembly returns an assembly with startable and waiting kinds.
func newAssembly(j *journal, startable, waiting []Kind, ask watchable) *assembly {
	return &assembly{
		environment: NewEnvironment("test", nil, nil, nil, prometheus.NewRegistry()),
		services:    []Service{j.service("events")},
		startable:   startable,
		waiting:     newKindQueue(waiting, []string{metav1.NamespaceAll}, unrestricted(ask), newDefinitions(newCRDs()), "h", newKindMetrics()),
		settle:      func() { j.note("events delivered") },
		campaign: func(stop context.Context, work workFunc) error {
			defer j.note("lease released")
			return work(stop, context.WithoutCancel(stop))
		},
	}
}

func TestRunStopsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		synced := false
		stop, cancel := context.WithCancel(t.Context())
		p := newProcess(&happened, &synced, Controller{Name: "demoapp", Run: func(stop, _ context.Context) error {
			<-stop.Done()
			elapse(10 * time.Second)
			happened.note("workers drained")
			return nil
		}})
		if got := p.ready.problems(); len(got) != 1 || got[0] != "starting" {
			t.Errorf("problems before the start = %q", got)
		}
		done := make(chan error)
		go func() { done <- p.run(stop) }()
		synctest.Wait()
		if got := p.ready.problems(); len(got) != 1 || got[0] != "demoapps: not synced" {
			t.Errorf("problems before the sync = %q", got)
		}
		synced = true
		if got := p.ready.problems(); len(got) != 0 {
			t.Errorf("problems after the sync = %q", got)
		}
		cancel()
		if got := p.ready.problems(); len(got) != 1 || got[0] != "stopping" {
			t.Errorf("problems after the signal = %q", got)
		}
		if err := <-done; err != nil {
			t.Errorf("run() = %v", err)
		}
		happened.expect(t, "prepared", "workers drained", "events delivered", "lease released",
			"informers stopped", "events stopped", "http stopped")
	})
}

func TestRunPrepare(t *testing.T) {
	failure := errors.New("no CRD")
	tests := []struct {
		name string
		stop bool // a signal arrives during prepare
		want error
	}{
		{name: "fails", want: failure},
		{name: "is interrupted", stop: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var happened journal
				stop, cancel := context.WithCancel(t.Context())
				defer cancel()
				p := newProcess(&happened, new(bool))
				p.prepare = func(context.Context) (*assembly, error) {
					if test.stop {
						cancel()
					}
					return nil, failure
				}
				if err := p.run(stop); !errors.Is(err, test.want) {
					t.Errorf("run() = %v, want %v", err, test.want)
				}
				happened.expect(t, "http stopped")
			})
		})
	}
}

func TestRunServiceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		failure := errors.New("broken")
		p := newProcess(&happened, new(bool), worker("demoapp", time.Second, true))
		p.endpoints = append(p.endpoints, Service{Name: "metrics", Run: func(context.Context) error {
			elapse(time.Minute)
			return failure
		}})
		if err := p.run(t.Context()); !errors.Is(err, failure) {
			t.Errorf("run() = %v, want %v", err, failure)
		}
		happened.expect(t, "prepared", "events delivered", "lease released", "informers stopped", "events stopped", "http stopped")
	})
}

func TestRunReturnsWhileWorkersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		exited := make(chan struct{}) // ends the remaining worker, like the exit of the process
		stop, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		p := newProcess(&happened, new(bool), Controller{Name: "stuck", Run: func(context.Context, context.Context) error {
			<-exited
			return nil
		}})
		p.endpoints = []Service{{Name: "http", Run: func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				happened.note("http stopped")
			case <-exited:
			}
			return nil
		}}}
		prepare := p.prepare
		p.prepare = func(ctx context.Context) (*assembly, error) {
			built, err := prepare(ctx)
			built.services = nil
			kind := built.startable[0].Build
			built.startable[0].Build = func(env *Environment) error {
				err := kind(env)
				env.parts.Services = nil
				return err
			}
			return built, err
		}
		start := time.Now()
		if err := p.run(stop); !errors.Is(err, errWorkersLeft) {
			t.Errorf("run() = %v, want %v", err, errWorkersLeft)
		}
		if took, want := time.Since(start), time.Minute+p.shutdownTimeout+abandonGrace; took != want {
			t.Errorf("took %v, want %v", took, want)
		}
		happened.expect(t, "prepared", "lease released")
		close(exited)
	})
}

// TestKindStartsLater starts a second kind while the first kind runs, and stops both.
func TestKindStartsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		stop, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		p := newProcess(&happened, new(bool))
		synced := false
		kindOf := func(name string) Kind {
			return Kind{Name: name, Build: func(env *Environment) error {
				happened.note(name + " built")
				service := happened.service(name + " informers")
				env.AddService(service.Name, service.Run)
				env.AddController(name, func(stop, _ context.Context) error {
					<-stop.Done()
					happened.note(name + " drained")
					return nil
				}, controller.NamedSync{Name: name + "s", HasSynced: func() bool { return name == "first" || synced }})
				return nil
			}}
		}
		served := time.Now().Add(time.Minute)
		late := kindOf("late")
		late.Resources = []schema.GroupVersionResource{apps}
		crds := newCRDs()
		p.prepare = func(context.Context) (*assembly, error) {
			built := newAssembly(&happened, []Kind{kindOf("first")}, []Kind{late},
				func(_ context.Context, resource schema.GroupVersionResource, _ string) error {
					if time.Now().Before(served) {
						return apierrors.NewNotFound(resource.GroupResource(), "")
					}
					return nil
				})
			built.waiting.crds = newDefinitions(crds)
			return built, nil
		}
		done := make(chan error)
		go func() { done <- p.run(stop) }()
		elapse(30 * time.Second)
		synctest.Wait()
		if got := p.ready.problems(); len(got) != 0 {
			t.Errorf("problems while a kind waits = %q", got)
		}
		elapse(time.Until(served))
		applyCRD(stop, t, crds, apps)
		synctest.Wait()
		if got := p.ready.problems(); len(got) != 1 || got[0] != "lates: not synced" {
			t.Errorf("problems while the late kind syncs = %q", got)
		}
		synced = true
		if got := p.ready.problems(); len(got) != 0 {
			t.Errorf("problems afterwards = %q", got)
		}

		cancel()

		if err := <-done; err != nil {
			t.Errorf("run() = %v", err)
		}
		drained := happened.entries[2:4]
		slices.Sort(drained)
		happened.expect(t, "first built", "late built", "first drained", "late drained", "events delivered", "lease released",
			"late informers stopped", "first informers stopped", "events stopped", "http stopped")
	})
}

// TestKindBuildErrorEndsProcess checks an error of Build at the start and later.
func TestKindBuildErrorEndsProcess(t *testing.T) {
	failure := errors.New("no chart")
	broken := Kind{Name: "broken", Build: func(*Environment) error { return failure }}
	first := Kind{Name: "first", Build: func(*Environment) error { return nil }}
	tests := []struct {
		name               string
		startable, waiting []Kind
		want               []string
	}{
		{name: "at the start", startable: []Kind{broken}, want: []string{"events stopped", "http stopped"}},
		{name: "later", startable: []Kind{first}, waiting: []Kind{broken}, want: []string{"events delivered", "lease released", "events stopped", "http stopped"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var happened journal
				p := newProcess(&happened, new(bool))
				p.prepare = func(context.Context) (*assembly, error) {
					return newAssembly(&happened, test.startable, test.waiting, nil), nil
				}

				err := p.run(t.Context())

				if !errors.Is(err, failure) || err.Error() != "kind broken: no chart" {
					t.Errorf("run() = %v, want %v", err, failure)
				}
				happened.expect(t, test.want...)
			})
		})
	}
}

// TestNoLeaseWithoutKinds: a process without a running kind does not acquire the lease.
func TestNoLeaseWithoutKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var happened journal
		stop, cancel := context.WithCancel(t.Context())
		p := newProcess(&happened, new(bool))
		p.prepare = func(context.Context) (*assembly, error) {
			built := newAssembly(&happened, nil, []Kind{{Name: "absent", Resources: []schema.GroupVersionResource{{Resource: "absent"}}}}, nil)
			built.campaign = func(context.Context, workFunc) error {
				happened.note("campaigned")
				return nil
			}
			return built, nil
		}
		done := make(chan error)
		go func() { done <- p.run(stop) }()
		elapse(time.Hour)

		cancel()

		if err := <-done; err != nil {
			t.Errorf("run() = %v", err)
		}
		happened.expect(t, "events stopped", "http stopped")
	})
}

// TestReplicaJoinsWithSyncedCaches: a replica with shards campaigns when its caches are synced, or
// after a minute.
func TestReplicaJoinsWithSyncedCaches(t *testing.T) {
	for name, test := range map[string]struct {
		after, want time.Duration
	}{"synced": {10 * time.Second, 10 * time.Second}, "one cache never syncs": {time.Hour, joinPatience}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var happened journal
				began := time.Now()
				isSynced := func() bool { return time.Since(began) >= test.after }
				p := newProcess(&happened, new(bool))
				p.prepare = func(context.Context) (*assembly, error) {
					kind := Kind{Name: "demoapp", Build: func(env *Environment) error {
						env.AddController("demoapp", func(context.Context, context.Context) error { return nil },
							controller.NamedSync{Name: "demoapps", HasSynced: isSynced})
						return nil
					}}
					built := newAssembly(&happened, []Kind{kind}, nil, nil)
					built.environment.Shards = controller.NewShards(2)
					built.campaign = func(context.Context, workFunc) error {
						if took := time.Since(began); took < test.want || took > test.want+time.Second {
							t.Errorf("the replica joins after %v, want %v", took, test.want)
						}
						return nil
					}
					return built, nil
				}

				if err := p.run(t.Context()); err != nil {
					t.Errorf("run() = %v", err)
				}
			})
		})
	}
}

func TestRunWithoutKinds(t *testing.T) {
	if err := Run(t.Context(), *parse(t)); err == nil || err.Error() != "there are no kinds to run" {
		t.Errorf("Run() = %v", err)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// Run runs the operator until stop ends, as the package comment says. It returns nil after an orderly stop.
func Run(stop context.Context, cfg Config) error {
	config, err := restConfig(cfg)
	if err != nil {
		return err
	}
	metrics := newMetrics()
	metrics.observeClients()
	ready := &readiness{}
	servers, err := listenAll(stop, cfg, metrics, ready)
	if err != nil {
		return err
	}
	p := &process{
		ready:           ready,
		shutdownTimeout: cfg.ShutdownTimeout,
		lostLeaseGrace:  cfg.LeaderElection.lostLeaseGrace(),
		prepare: func(ctx context.Context) (*assembly, campaign, error) {
			built, campaign, err := prepare(ctx, cfg, config, metrics)
			if err == nil {
				logStart(ctx, cfg, config, servers)
			}
			return built, campaign, err
		},
	}
	for _, s := range servers {
		p.endpoints = append(p.endpoints, service{name: s.name, run: s.run})
	}
	return p.run(stop)
}

// listenAll binds the endpoints that are not off.
func listenAll(ctx context.Context, cfg Config, metrics *processMetrics, ready *readiness) ([]*server, error) {
	var servers []*server
	for _, endpoint := range []struct {
		name, flag, address string
		handler             http.Handler
	}{
		{"metrics", "--metrics-bind-address", cfg.MetricsBindAddress, metricsHandler(metrics.registry)},
		{"probes", "--health-probe-bind-address", cfg.ProbeBindAddress, probeHandler(ready)},
		{"pprof", "--pprof-bind-address", cfg.PprofBindAddress, pprofHandler()},
	} {
		s, err := listen(ctx, endpoint.name, endpoint.flag, endpoint.address, endpoint.handler)
		if err != nil {
			return nil, err
		}
		if s != nil {
			servers = append(servers, s)
		}
	}
	return servers, nil
}

// logStart tells what is being started, once it is known that it can be: before, the one line in the log is the reason
// why not.
func logStart(ctx context.Context, cfg Config, config *rest.Config, servers []*server) {
	logger := klog.FromContext(ctx)
	for _, s := range servers {
		logger = logger.WithValues(s.name, s.listener.Addr().String())
	}
	namespaces := "all"
	if len(cfg.Namespaces) > 0 {
		namespaces = strings.Join(cfg.Namespaces, ",")
	}
	logger.Info("Starting", "version", cfg.Version, "server", config.Host, "namespaces", namespaces,
		"identity", cfg.Identity)
}

// prepare makes sure that the operator can work on this cluster, and builds what works.
func prepare(ctx context.Context, cfg Config, config *rest.Config, metrics *processMetrics) (*assembly, campaign, error) {
	clients, err := newClients(config)
	if err != nil {
		return nil, nil, err
	}
	if err := preflight(ctx, clients.kube.Discovery(), config.Host); err != nil {
		return nil, nil, err
	}
	// Half the deadline leaves time for a second try when a request hangs.
	leases, err := clients.leases(cfg.LeaderElection.RenewDeadline / 2)
	if err != nil {
		return nil, nil, err
	}
	if cfg.LeaderElection.Enabled {
		if err := checkLease(ctx, leases, cfg.LeaderElection); err != nil {
			return nil, nil, err
		}
	}
	stream, err := newEventStream(ctx, &events.EventSinkImpl{Interface: clients.kube.EventsV1()})
	if err != nil {
		return nil, nil, err
	}
	built, err := assemble(dependencies{config: cfg, clients: clients, recorder: stream.recorder(), metrics: metrics})
	if err != nil {
		stream.close()
		return nil, nil, err
	}
	// First to start, last to stop: whatever runs may have something to tell.
	built.services = append([]service{{name: "events", run: stream.run}}, built.services...)
	leadership := newLeadership(cfg.LeaderElection, cfg.Identity, leases, metrics.leading(cfg.LeaderElection.ResourceName))
	return built, leadership.run, nil
}

// campaign calls work when this process leads; see leadership.run.
type campaign func(stop context.Context, work workFunc) error

// process is the operator before it runs, with its parts exchangeable by tests.
type process struct {
	// endpoints start first and stop last, so that the state of the process can be asked for at all times.
	endpoints []service
	ready     *readiness
	// prepare is called while the endpoints answer, since it may take a while.
	prepare func(ctx context.Context) (*assembly, campaign, error)
	// shutdownTimeout bounds the wait for work in flight after the end of stop.
	shutdownTimeout time.Duration
	// lostLeaseGrace bounds the same wait after the loss of the lease.
	lostLeaseGrace time.Duration
}

// run starts everything, waits for the end of stop or for a failure, and stops everything in the reverse order.
func (p *process) run(stop context.Context) (err error) {
	stop, fail := context.WithCancelCause(stop)
	defer fail(nil)
	// Services outlive stop: those who drain still need them.
	base := context.WithoutCancel(stop)
	services := &serviceStack{fail: fail}
	defer func() {
		if !errors.Is(err, errWorkersLeft) {
			klog.FromContext(base).V(1).Info("Stopping services")
			services.stopAll(base)
		}
		if failed := (*serviceError)(nil); err == nil && errors.As(context.Cause(stop), &failed) {
			err = failed
		}
	}()

	services.start(base, p.endpoints...)
	built, campaign, err := p.prepare(stop)
	switch {
	case stop.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	services.start(base, built.services...)
	p.ready.watch(stop, built.synced)
	return campaign(stop, func(stop, lead context.Context) error {
		return p.supervise(stop, lead, built.controllers)
	})
}

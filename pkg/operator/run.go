// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/example/demoapp-controller/pkg/controller"
)

// Run runs kinds until stop ends. It returns nil after an orderly stop. The package comment
// describes the steps. It does not read options.Controllers: a program with the flag --controllers
// calls [Options.Select] before.
func Run(stop context.Context, options Options, kinds ...Kind) error {
	if len(kinds) == 0 {
		return errors.New("there are no kinds to run")
	}
	cfg, err := options.complete(observeSurroundings(options.Name))
	if err != nil {
		return err
	}
	server, err := restConfig(cfg.Options)
	if err != nil {
		return err
	}
	metrics := newMetrics()
	metrics.observeClients()
	metrics.registry.MustRegister(cfg.buildInfo())
	ready := &readiness{}
	handler, certificates, err := metricsEndpoint(cfg, server, metrics)
	if err != nil {
		return err
	}
	servers, err := listenAll(stop, cfg, handler, certificates, ready)
	if err != nil {
		return err
	}
	p := &process{
		ready:           ready,
		shutdownTimeout: cfg.ShutdownTimeout,
		prepare: func(ctx context.Context) (*assembly, error) {
			built, err := prepare(ctx, cfg, server, metrics, kinds, ready.setMissing)
			if err == nil {
				logStart(ctx, cfg, server, servers)
			}
			return built, err
		},
	}
	for _, s := range servers {
		p.endpoints = append(p.endpoints, Service{Name: s.name, Run: s.run})
	}
	return p.run(stop)
}

// metricsEndpoint returns the handler of the metrics, and its certificates; nil without
// --metrics-secure.
func metricsEndpoint(cfg config, server *rest.Config, metrics *processMetrics) (http.Handler, certificateSource, error) {
	handler := metricsHandler(metrics.registry)
	if !cfg.MetricsSecure {
		return handler, nil, nil
	}
	certificates, err := metricsCertificates(cfg)
	if err != nil {
		return nil, nil, err
	}
	authorizer, err := newAuthorizer(server, clock.RealClock{})
	if err != nil {
		return nil, nil, err
	}
	return authorizer.protect(handler), certificates, nil
}

// listenAll binds the endpoints that are turned on. The metrics are served over HTTPS if they have
// certificates.
func listenAll(
	ctx context.Context, cfg config, metrics http.Handler, certificates certificateSource, ready *readiness,
) ([]*server, error) {
	var servers []*server
	for _, endpoint := range []struct {
		name, flag, address string
		handler             http.Handler
	}{
		{metricsServer, "--metrics-bind-address", cfg.MetricsBindAddress, metrics},
		{"probes", "--health-probe-bind-address", cfg.ProbeBindAddress, probeHandler(ready)},
		{"pprof", "--pprof-bind-address", cfg.PprofBindAddress, pprofHandler()},
	} {
		s, err := listen(ctx, endpoint.name, endpoint.flag, endpoint.address, endpoint.handler)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		if endpoint.name == metricsServer && certificates != nil {
			s.secure(certificates)
		}
		servers = append(servers, s)
	}
	return servers, nil
}

// logStart logs the start and the configuration. It is called after all checks, so that a failed
// start logs only its error.
func logStart(ctx context.Context, cfg config, server *rest.Config, servers []*server) {
	logger := klog.FromContext(ctx)
	for _, s := range servers {
		logger = logger.WithValues(s.name, s.listener.Addr().String())
	}
	namespaces := "all"
	if len(cfg.Namespaces) > 0 {
		namespaces = strings.Join(cfg.Namespaces, ",")
	}
	logger.Info("Starting", "version", cfg.Version, "commit", cfg.Commit, "date", cfg.Date, "goversion", runtime.Version(),
		"server", server.Host, "namespaces", namespaces, "identity", cfg.identity)
}

// assembly is the part of the process that needs the API server.
type assembly struct {
	environment *Environment
	// shared are the controllers of the process that belong to no kind.
	shared []Controller
	// services start before the services of kinds.
	services []Service
	// startable are the kinds that can start at once. waiting holds the other kinds.
	startable []Kind
	waiting   *kindQueue
	// settle waits for the last events, at most for eventsFlushTimeout.
	settle func()
	// campaign calls work when this process is the leader; see leadership.run.
	campaign func(stop context.Context, work workFunc) error
}

// prepare checks the API server, the permissions and the lease, and builds the environment of the
// kinds. lacking is called with the permissions for which prepare waits.
func prepare(
	ctx context.Context, cfg config, server *rest.Config, metrics *processMetrics, kinds []Kind, lacking func(permissions []string),
) (*assembly, error) {
	writes := &fence{}
	clients, err := NewClients(writes.fenced(server))
	if err != nil {
		return nil, err
	}
	environment := NewEnvironment(cfg.Name, clients, cfg.Namespaces, nil, metrics.registry)
	waiting := newKindQueue(withOptional(kinds), environment.WatchedNamespaces(), newQuestions(clients), newDefinitions(clients.Dynamic),
		server.Host, metrics.kinds)
	waiting.lacking = lacking
	startable, err := waiting.preflight(ctx)
	if err != nil {
		return nil, err
	}
	// Half of the deadline leaves time for a second attempt if a request hangs.
	leases, err := clients.leases(cfg.LeaderElection.RenewDeadline / 2)
	if err != nil {
		return nil, err
	}
	restores := newRestoreWatch(leases)
	if cfg.LeaderElection.Enabled {
		if err := checkLeases(ctx, restores, cfg.Options); err != nil {
			return nil, err
		}
	}
	namespaces, err := watchNamespaces(ctx, environment)
	if err != nil {
		return nil, err
	}
	stream, err := newEventStream(ctx, &events.EventSinkImpl{Interface: clients.Kube.EventsV1()})
	if err != nil {
		return nil, err
	}
	environment.stream, environment.kinds = stream, metrics.kinds
	environment.lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: cfg.LeaderElection.ResourceNamespace, Name: cfg.LeaderElection.ResourceName,
	}}
	environment.report = newReport(cfg.Version, cfg.ReportedImages, kinds)
	holder, held := cfg.identity, coordinationv1client.LeasesGetter(reportingLeases{restores, environment.report})
	var shared []Controller
	if cfg.Shards > 1 {
		environment.Shards = controller.NewShards(cfg.Shards)
		group := newReplicas(cfg.LeaderElection, cfg.identity, cfg.Shards, held)
		holder, held = group.group(), group
		shared = []Controller{{Name: "shards", Run: newSharding(group, environment.Shards, metrics.shards).run}}
	}
	leadership := newLeadership(cfg.LeaderElection, holder, held, metrics.leading(cfg.LeaderElection.ResourceName))
	leadership.mayWrite = writes.open
	return &assembly{
		environment: environment,
		shared:      shared,
		// Events start first and stop last, because every other service may record events.
		services:  append([]Service{{Name: "events", Run: stream.run}, {Name: "leases", Run: restores.run}}, namespaces...),
		startable: startable,
		waiting:   waiting,
		settle:    stream.settle,
		campaign:  leadership.run,
	}, nil
}

// joinPatience bounds how long a replica with shards waits for its caches before it joins, so that a
// kind that cannot be listed does not keep it from the work on other kinds.
const joinPatience = time.Minute

// process is the operator process. Tests replace its parts.
type process struct {
	// endpoints start first and stop last, so that probes and metrics are always served.
	endpoints []Service
	ready     *readiness
	// prepare is called after the endpoints have started, because it may take long.
	prepare func(ctx context.Context) (*assembly, error)
	// shutdownTimeout bounds the wait for work in flight after the end of stop.
	shutdownTimeout time.Duration
}

// run starts all parts, waits for the end of stop or for a failure, and stops the parts in the
// reverse order.
func (p *process) run(stop context.Context) (err error) {
	stop, fail := context.WithCancelCause(stop)
	defer fail(nil)
	// Services outlive stop, because draining controllers need them.
	base := context.WithoutCancel(stop)
	services := &serviceStack{fail: fail}
	var waiting sync.WaitGroup
	defer func() {
		cause := context.Cause(stop)
		fail(nil)
		waiting.Wait()
		if !errors.Is(err, errWorkersLeft) {
			klog.FromContext(base).V(1).Info("Stopping services")
			services.stopAll(base)
		}
		if failed := (*serviceError)(nil); err == nil && errors.As(cause, &failed) {
			err = failed
		}
	}()

	services.start(base, p.endpoints...)
	built, err := p.prepare(stop)
	switch {
	case stop.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	services.start(base, built.services...)
	// Each kind sends once. The buffer has room for them and for the shared controllers, so that a
	// kind on a standby does not block.
	controllers := make(chan []Controller, len(built.startable)+len(built.waiting.waiting)+1)
	controllers <- built.shared
	// started is closed when the first kind has started. A process without kinds must not hold the
	// lease.
	started, first := make(chan struct{}), sync.Once{}
	start := func(kind Kind) error {
		parts, err := built.environment.Build(kind)
		if err != nil {
			return &serviceError{"kind " + kind.Name, err}
		}
		klog.FromContext(base).V(1).Info("Starting a kind", "kind", kind.Name)
		services.start(base, parts.Services...)
		p.ready.add(parts.Synced, parts.Checks...)
		controllers <- parts.Controllers
		first.Do(func() { close(started) })
		return nil
	}
	for _, kind := range built.startable {
		if err := start(kind); err != nil {
			return err
		}
	}
	p.ready.watch(stop)
	waiting.Go(func() {
		if err := built.waiting.run(stop, start); err != nil {
			fail(err)
		}
	})
	if !p.awaitKinds(stop, started, built.environment.Shards) {
		return nil
	}
	return built.campaign(stop, func(stop, lead context.Context) error { return p.lead(stop, lead, built, controllers) })
}

// awaitKinds waits until the first kind has started, and with shards also for the caches. It returns
// false if stop ends before the start.
func (p *process) awaitKinds(stop context.Context, started <-chan struct{}, shards *controller.Shards) bool {
	select {
	case <-started:
	case <-stop.Done():
		return false
	}
	if shards != nil {
		// Running replicas give shards to a new one as soon as it campaigns, and the new replica
		// makes no pass before its caches are synced.
		p.ready.awaitSynced(stop, joinPatience)
	}
	return true
}

// lead runs the controllers until stop or lead ends.
func (p *process) lead(stop, lead context.Context, built *assembly, controllers <-chan []Controller) error {
	err := p.supervise(stop, lead, controllers)
	if lead.Err() == nil && !errors.Is(err, errWorkersLeft) {
		// The events of this leader usually precede the writes of the next one. Events that take
		// longer than eventsFlushTimeout are sent while the services stop.
		built.settle()
	}
	return err
}

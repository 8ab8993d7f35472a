// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
)

// job is the job of the operator, as the ServiceMonitor names it.
const job = "demoapp-controller"

// evaluationInterval is the time between two evaluations of groups without an interval of their
// own.
const evaluationInterval = 30 * time.Second

// Server is a Prometheus in this process: its scrapes, its database, its rules and its queries.
type Server struct {
	db     *tsdb.DB
	engine *promql.Engine
	scrape *scrape.Manager
	rules  *rules.Manager
	ended  chan error
}

// StartServer starts a Prometheus that scrapes targets, which are host:port, in this interval, and
// evaluates the rules of artifacts/monitoring. root is the root of the repository. The database is
// in dir.
func StartServer(ctx context.Context, root, dir string, interval time.Duration, targets ...string) (_ *Server, err error) {
	logger, registry := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	s := &Server{ended: make(chan error, 1)}
	if s.db, err = tsdb.Open(filepath.Join(dir, "data"), logger, registry, tsdb.DefaultOptions(), nil); err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	s.engine = promql.NewEngine(promql.EngineOpts{
		Logger: logger, MaxSamples: 50_000_000, Timeout: time.Minute, LookbackDelta: time.Minute,
		Parser: parser.NewParser(parser.Options{}),
	})
	if s.scrape, err = newScrapes(s.db, logger, registry, interval); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	if s.rules, err = newRules(ctx, s.db, s.engine, logger, root, dir); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	groups := make(chan map[string][]*targetgroup.Group, 1)
	groups <- map[string][]*targetgroup.Group{job: targetGroups(targets)}
	go func() { s.ended <- s.scrape.Run(groups) }()
	go s.rules.Run()
	return s, nil
}

// newScrapes returns scrapes of one job.
func newScrapes(db *tsdb.DB, logger *slog.Logger, registry *prometheus.Registry, interval time.Duration) (*scrape.Manager, error) {
	text := fmt.Sprintf("scrape_configs: [{job_name: %s, scrape_interval: %[2]s, scrape_timeout: %[2]s}]",
		job, model.Duration(interval))
	loaded, err := config.Load(text, logger)
	if err != nil {
		return nil, fmt.Errorf("configure Prometheus: %w", err)
	}
	options := &scrape.Options{DiscoveryReloadInterval: model.Duration(interval), DiscoveryReloadOnStartup: true}
	manager, err := scrape.NewManager(options, logger, nil, db, nil, registry)
	if err != nil {
		return nil, fmt.Errorf("configure the scrapes: %w", err)
	}
	if err := manager.ApplyConfig(loaded); err != nil {
		return nil, fmt.Errorf("configure the scrapes: %w", err)
	}
	return manager, nil
}

// newRules returns the rules of artifacts/monitoring.
func newRules(
	ctx context.Context, db *tsdb.DB, engine *promql.Engine, logger *slog.Logger, root, dir string,
) (*rules.Manager, error) {
	content, _, err := Rules(root)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "rules.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		return nil, fmt.Errorf("write the rules: %w", err)
	}
	manager := rules.NewManager(&rules.ManagerOptions{
		ExternalURL: &url.URL{},
		QueryFunc:   rules.EngineQueryFunc(engine, db),
		NotifyFunc:  func(context.Context, string, ...*rules.Alert) {},
		Context:     ctx,
		Appendable:  db,
		Queryable:   db,
		Logger:      logger,
		Parser:      parser.NewParser(parser.Options{}),
	})
	if err := manager.Update(evaluationInterval, []string{file}, labels.EmptyLabels(), "", nil); err != nil {
		return nil, fmt.Errorf("load the rules: %w", err)
	}
	return manager, nil
}

// targetGroups returns targets with the labels that the ServiceMonitor adds.
func targetGroups(targets []string) []*targetgroup.Group {
	var groups []*targetgroup.Group
	for i, target := range targets {
		groups = append(groups, &targetgroup.Group{
			Source:  target,
			Targets: []model.LabelSet{{model.AddressLabel: model.LabelValue(target)}},
			Labels: model.LabelSet{
				"namespace": "demoapp-system",
				"pod":       model.LabelValue(fmt.Sprintf("%s-%d", job, i)),
				"instance":  model.LabelValue(fmt.Sprintf("10.0.0.%d:8080", i+1)),
			},
		})
	}
	return groups
}

// Stop ends the scrapes and the rules, and closes the database.
func (s *Server) Stop() error {
	s.scrape.Stop()
	s.rules.Stop()
	return errors.Join(<-s.ended, s.db.Close())
}

// Query returns the values of an expression in a range.
func (s *Server) Query(ctx context.Context, expr string, from, to time.Time, step time.Duration) (promql.Matrix, error) {
	query, err := s.engine.NewRangeQuery(ctx, s.db, nil, expr, from, to, step)
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	defer query.Close()
	matrix, err := query.Exec(ctx).Matrix()
	if err != nil {
		return nil, fmt.Errorf("query %s: %w", expr, err)
	}
	// Closing the query reuses the slices of the points.
	copied := make(promql.Matrix, 0, len(matrix))
	for _, series := range matrix {
		points := append([]promql.FPoint(nil), series.Floats...)
		copied = append(copied, promql.Series{Metric: series.Metric.Copy(), Floats: points})
	}
	return copied, nil
}

// Alerts returns the names of the alerts that are pending or firing.
func (s *Server) Alerts() []string {
	var names []string
	for _, rule := range s.rules.AlertingRules() {
		if rule.State() != rules.StateInactive {
			names = append(names, rule.Name())
		}
	}
	return names
}

// Seen returns the times of the first and the last successful scrape.
func (s *Server) Seen(ctx context.Context) (from, to time.Time, err error) {
	now := time.Now()
	matrix, err := s.Query(ctx, `up{job="`+job+`"} == 1`, now.Add(-time.Hour), now, time.Second)
	if err != nil {
		return from, to, err
	}
	for _, series := range matrix {
		first, last := series.Floats[0].T, series.Floats[len(series.Floats)-1].T
		if from.IsZero() || first < from.UnixMilli() {
			from = time.UnixMilli(first)
		}
		if last > to.UnixMilli() {
			to = time.UnixMilli(last)
		}
	}
	if to.IsZero() {
		return from, to, errors.New("no scrape has succeeded")
	}
	return from, to, nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// maxHistory and timeout are the same for both players.
const (
	maxHistory = 10
	timeout    = 2 * time.Minute
)

// stock is the player that uses Helm's own actions, client and storage, like "helm upgrade
// --install --force-conflicts --reset-values --cleanup-on-fail" and the other commands.
type stock struct {
	t         testing.TB
	namespace string
	timeout   time.Duration
	journal   *journal
	flags     *genericclioptions.ConfigFlags
	// saboteur lets its requests fail.
	saboteur saboteur
	// clientSide makes it apply as Helm 3 does.
	clientSide bool
	// validating makes it validate manifests with the API server's OpenAPI documents, as the helm
	// command does. The validation takes most of an operation's time, and matters for invalid
	// manifests only.
	validating bool
	// adapt, when set, changes the configuration of each operation.
	adapt func(*action.Configuration)
}

// unvalidated is Helm's client without the validation.
type unvalidated struct{ *kube.Client }

// Build implements kube.Interface.
func (c unvalidated) Build(reader io.Reader, _ bool) (kube.ResourceList, error) {
	return c.Client.Build(reader, false)
}

func newStock(t testing.TB, namespace string, journal *journal) *stock {
	t.Helper()
	s := &stock{t: t, namespace: namespace, timeout: timeout, journal: journal}
	s.connect()
	return s
}

// connect makes the player forget its discovery, as a new process of the helm command does.
func (s *stock) connect() {
	s.t.Helper()
	kubeconfig, cacheDir := shared.Kubeconfig(), s.t.TempDir()
	s.flags = genericclioptions.NewConfigFlags(true)
	s.flags.KubeConfig, s.flags.CacheDir, s.flags.Namespace = &kubeconfig, &cacheDir, &s.namespace
	s.flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS = -1
		config.Wrap(s.saboteur.wrap)
		config.Wrap(s.journal.wrap)
		return config
	}
}

// stockOn uses Helm on the release of a player, as a user may.
func stockOn(t testing.TB, p player) *stock {
	t.Helper()
	namespace, journal := p.home()
	return newStock(t, namespace, journal)
}

func (s *stock) home() (string, *journal) { return s.namespace, s.journal }

// configuration returns a new configuration for each operation, as the helm command does.
func (s *stock) configuration() *action.Configuration {
	s.t.Helper()
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := cfg.Init(s.flags, s.namespace, "secret"); err != nil {
		s.t.Fatal(err)
	}
	if client, ok := cfg.KubeClient.(*kube.Client); ok && !s.validating {
		cfg.KubeClient = unvalidated{client}
	}
	if s.adapt != nil {
		s.adapt(cfg)
	}
	return cfg
}

func (s *stock) deploy(ctx context.Context, chart source, values map[string]any) error {
	history := action.NewHistory(s.configuration())
	history.Max = 1
	switch _, err := history.Run(releaseName); {
	case errors.Is(err, driver.ErrReleaseNotFound):
		return s.install(ctx, chart, values, false)
	case err != nil:
		return err
	default:
		return s.upgrade(ctx, chart, values)
	}
}

func (s *stock) install(ctx context.Context, chart source, values map[string]any, replace bool) error {
	install := action.NewInstall(s.configuration())
	install.ReleaseName, install.Namespace = releaseName, s.namespace
	install.Replace = replace
	install.ServerSideApply = !s.clientSide
	install.WaitStrategy = kube.HookOnlyStrategy
	install.Timeout = s.timeout
	_, err := install.RunWithContext(ctx, chart.in(s.namespace).stock(s.t), values)
	return err
}

func (s *stock) upgrade(ctx context.Context, chart source, values map[string]any) error {
	upgrade := action.NewUpgrade(s.configuration())
	upgrade.Namespace = s.namespace
	upgrade.ServerSideApply, upgrade.ForceConflicts = "true", true
	if s.clientSide {
		upgrade.ServerSideApply, upgrade.ForceConflicts = "false", false
	}
	upgrade.ResetValues = true
	upgrade.CleanupOnFail = true
	upgrade.MaxHistory = maxHistory
	upgrade.WaitStrategy = kube.HookOnlyStrategy
	upgrade.Timeout = s.timeout
	_, err := upgrade.RunWithContext(ctx, releaseName, chart.in(s.namespace).stock(s.t), values)
	return err
}

func (s *stock) rollback(_ context.Context, revision int) error {
	rollback := action.NewRollback(s.configuration())
	rollback.Version = revision
	rollback.ServerSideApply, rollback.ForceConflicts = "true", true
	rollback.CleanupOnFail = true
	rollback.MaxHistory = maxHistory
	rollback.WaitStrategy = kube.HookOnlyStrategy
	rollback.Timeout = s.timeout
	return rollback.Run(releaseName)
}

func (s *stock) uninstall(_ context.Context) error { return s.remove(false) }

// remove uninstalls the release, with or without its history.
func (s *stock) remove(keepHistory bool) error {
	uninstall := action.NewUninstall(s.configuration())
	uninstall.IgnoreNotFound = true
	uninstall.KeepHistory = keepHistory
	uninstall.DeletionPropagation = "background"
	uninstall.WaitStrategy = kube.HookOnlyStrategy
	uninstall.Timeout = s.timeout
	_, err := uninstall.Run(releaseName)
	return err
}

// test runs the chart's tests.
func (s *stock) test() error {
	testing := action.NewReleaseTesting(s.configuration())
	testing.Namespace = s.namespace
	testing.Timeout = s.timeout
	_, shutdown, err := testing.Run(releaseName)
	return errors.Join(err, shutdown())
}

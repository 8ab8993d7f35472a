// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release"
	"helm.sh/helm/v4/pkg/storage/driver"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/test/cluster"
)

// timeout bounds one operation.
const timeout = 2 * time.Minute

// Deploy installs or upgrades the release with the owner's name from a chart in a folder. It
// returns the manifest.
func (o Operator) Deploy(ctx context.Context, t testing.TB, c *cluster.Cluster, folder string, values map[string]any) string {
	t.Helper()
	chart, err := loader.Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	cfg := o.configuration(t, c)
	if _, err = cfg.Releases.Last(o.Owner.Name); errors.Is(err, driver.ErrReleaseNotFound) {
		install := action.NewInstall(cfg)
		install.ReleaseName, install.Namespace = o.Owner.Name, o.Namespace
		install.ServerSideApply, install.WaitStrategy, install.Timeout = false, kube.HookOnlyStrategy, timeout
		_, err = install.RunWithContext(ctx, chart, values)
	} else {
		upgrade := action.NewUpgrade(cfg)
		upgrade.Namespace, upgrade.ResetValues = o.Namespace, true
		upgrade.ServerSideApply, upgrade.WaitStrategy, upgrade.Timeout = "false", kube.HookOnlyStrategy, timeout
		_, err = upgrade.RunWithContext(ctx, o.Owner.Name, chart, values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o.manifest(t, c)
}

// manifest returns the manifest of the newest revision.
func (o Operator) manifest(t testing.TB, c *cluster.Cluster) string {
	t.Helper()
	newest, err := o.configuration(t, c).Releases.Last(o.Owner.Name)
	if err != nil {
		t.Fatal(err)
	}
	accessor, err := release.NewAccessor(newest)
	if err != nil {
		t.Fatal(err)
	}
	return accessor.Manifest()
}

// Uninstall uninstalls the release.
func (o Operator) Uninstall(t testing.TB, c *cluster.Cluster) {
	t.Helper()
	uninstall := action.NewUninstall(o.configuration(t, c))
	uninstall.DeletionPropagation, uninstall.WaitStrategy, uninstall.Timeout = "background", kube.HookOnlyStrategy, timeout
	if _, err := uninstall.Run(o.Owner.Name); err != nil {
		t.Fatal(err)
	}
}

func (o Operator) configuration(t testing.TB, c *cluster.Cluster) *action.Configuration {
	t.Helper()
	kubeconfig, cacheDir := c.Kubeconfig(), t.TempDir()
	flags := genericclioptions.NewConfigFlags(true)
	flags.KubeConfig, flags.CacheDir, flags.Namespace = &kubeconfig, &cacheDir, &o.Namespace
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		config.QPS = -1
		o.Wrap(config)
		return config
	}
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := cfg.Init(flags, o.Namespace, "secret"); err != nil {
		t.Fatal(err)
	}
	o.Adapt(cfg, c.Client)
	return cfg
}

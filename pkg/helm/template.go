// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"helm.sh/helm/v4/pkg/action"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/functions"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
)

// discard drops all messages: Helm logs the errors that it returns.
type discard struct{ slog.Handler }

// Enabled implements slog.Handler.
func (discard) Enabled(context.Context, slog.Level) bool { return false }

// Templated is an object of a template.
type Templated struct {
	*unstructured.Unstructured

	// Source is the template, such as web/templates/service.yaml.
	Source string
}

// Template returns the objects of a first install, hooks included, without a cluster: lookups find
// nothing, and the capabilities come from Helm's Kubernetes version. Hooks of tests, which the
// engine never runs, and the files below crds/ are left out. The error is a [RenderError], or wraps
// [chart.ErrInvalidValues].
func Template(ctx context.Context, c *chart.Chart, namespace, name string, values map[string]any) ([]Templated, error) {
	parsed, err := c.Parse()
	if err != nil {
		return nil, err
	}
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(discard{}))
	cfg.CustomTemplateFuncs = (&functions.Rendering{Stop: ctx}).Functions()
	install := action.NewInstall(cfg)
	install.DryRunStrategy, install.ReleaseName, install.Namespace = action.DryRunClient, name, namespace
	install.SkipSchemaValidation = true // Helm reads the addresses that a schema names.
	if err := c.CheckValues(values); err != nil {
		return nil, err
	}
	result, err := install.RunWithContext(ctx, parsed, values)
	if err != nil {
		return nil, &RenderError{Chart: c.Name(), Err: err}
	}
	rls, ok := result.(*releasev1.Release)
	if !ok {
		return nil, errors.New("render the chart: the release has an unknown type")
	}
	var objects []Templated
	add := func(text, source string) error {
		documents, err := manifest.Parse(text)
		if err != nil {
			return &RenderError{Chart: c.Name(), Err: err}
		}
		for _, document := range documents {
			for _, object := range document.Objects {
				objects = append(objects, Templated{object, cmp.Or(source, manifest.Source(document))})
			}
		}
		return nil
	}
	if err := add(rls.Manifest, ""); err != nil {
		return nil, err
	}
	for _, hook := range rls.Hooks {
		if isTest(hook) {
			continue
		}
		if err := add(hook.Manifest, hook.Path); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

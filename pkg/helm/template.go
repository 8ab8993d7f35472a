// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
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
	// Hooks are the events at which the object runs as a hook; empty for other objects.
	Hooks []string
}

// TemplateOptions are the facts about a cluster for a rendering. The zero value is a cluster of Helm's
// version of Kubernetes with the built-in kinds alone.
type TemplateOptions struct {
	// KubeVersion is the version of Kubernetes, such as v1.33.0.
	KubeVersion string
	// APIVersions are further API versions and kinds, such as monitoring.coreos.com/v1/ServiceMonitor.
	APIVersions []string
	// IncludeCRDs adds the files below crds/, as the first objects.
	IncludeCRDs bool
	// Lookup is called for each lookup of a template, which finds nothing. Optional.
	Lookup func(apiVersion, kind, namespace, name string)
}

// Template returns the objects of a first install with the marks of the release, in the order of the
// install and hooks last, without a cluster. Objects of namespaced built-in kinds get the namespace. Hooks
// of tests, which the engine never runs, are left out. The error is a [RenderError], or wraps
// [chart.ErrInvalidValues].
func Template(ctx context.Context, c *chart.Chart, namespace, name string, values map[string]any, o TemplateOptions) ([]Templated, error) {
	parsed, err := c.Parse()
	if err != nil {
		return nil, err
	}
	rls, err := o.render(ctx, c, parsed, namespace, name, values)
	if err != nil {
		return nil, err
	}
	var t templated
	if o.IncludeCRDs {
		for _, crd := range parsed.CRDObjects() {
			if err := t.add(string(crd.File.Data), func(*unstructured.Unstructured) {}, Templated{Source: crd.Filename}); err != nil {
				return nil, &RenderError{Chart: c.Name(), Err: err}
			}
		}
	}
	place := func(object *unstructured.Unstructured) {
		if object.GetNamespace() == "" && IsBuiltIn(object.GroupVersionKind().Group) && !IsClusterScoped(object.GetKind()) {
			object.SetNamespace(namespace)
		}
	}
	own := func(object *unstructured.Unstructured) {
		manifest.Claim(object, namespace, name)
		place(object)
	}
	if err := t.add(rls.Manifest, own, Templated{}); err != nil {
		return nil, &RenderError{Chart: c.Name(), Err: err}
	}
	for _, hook := range rls.Hooks {
		if isTest(hook) {
			continue
		}
		of := Templated{Source: hook.Path}
		for _, event := range hook.Events {
			of.Hooks = append(of.Hooks, event.String())
		}
		if err := t.add(hook.Manifest, place, of); err != nil {
			return nil, &RenderError{Chart: c.Name(), Err: err}
		}
	}
	return t, nil
}

// render returns the release of a first install of a parsed chart.
func (o TemplateOptions) render(
	ctx context.Context, c *chart.Chart, parsed *chartv2.Chart, namespace, name string, values map[string]any,
) (rls *releasev1.Release, err error) {
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(discard{}))
	cfg.CustomTemplateFuncs = (&functions.Rendering{Stop: ctx}).Functions()
	if o.Lookup != nil {
		cfg.CustomTemplateFuncs["lookup"] = func(apiVersion, kind, namespace, name string) map[string]any {
			o.Lookup(apiVersion, kind, namespace, name)
			return map[string]any{}
		}
	}
	install := action.NewInstall(cfg)
	install.APIVersions = o.APIVersions
	if o.KubeVersion != "" {
		if install.KubeVersion, err = common.ParseKubeVersion(o.KubeVersion); err != nil {
			return nil, fmt.Errorf("version %q of Kubernetes: %w", o.KubeVersion, err)
		}
	}
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
	return rls, nil
}

// templated are the objects of a rendering.
type templated []Templated

// add adds the objects of a manifest, completed by complete. The other fields are taken from of, whose
// source is by default the template that the manifest names.
func (t *templated) add(text string, complete func(*unstructured.Unstructured), of Templated) error {
	documents, err := manifest.Parse(text)
	if err != nil {
		return err
	}
	for _, document := range documents {
		for _, object := range document.Objects {
			complete(object)
			*t = append(*t, Templated{Unstructured: object, Source: cmp.Or(of.Source, manifest.Source(document)), Hooks: of.Hooks})
		}
	}
	return nil
}

// clusterScoped are the kinds of Kubernetes that are not namespaced.
var clusterScoped = []string{
	"Namespace", "Node", "PersistentVolume", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "APIService", "StorageClass",
	"VolumeAttachment", "CSIDriver", "CSINode", "PriorityClass", "RuntimeClass", "IngressClass", "MutatingWebhookConfiguration",
	"ValidatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicy",
	"MutatingAdmissionPolicyBinding", "FlowSchema", "PriorityLevelConfiguration", "CertificateSigningRequest", "ClusterTrustBundle",
}

// IsClusterScoped reports whether a kind of Kubernetes is not namespaced. Kinds of CRDs are taken for
// namespaced.
func IsClusterScoped(kind string) bool { return slices.Contains(clusterScoped, kind) }

// IsBuiltIn reports whether an API group belongs to Kubernetes itself.
func IsBuiltIn(group string) bool {
	return !strings.Contains(group, ".") || strings.HasSuffix(group, ".k8s.io")
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"io"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/fields"
	"github.com/example/demoapp-controller/pkg/helm/functions"
	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// maxRecordedBytes bounds a decompressed record that is read without an engine.
const maxRecordedBytes = 32 << 20

// Recorded is a revision of a release as its record has it. Programs that read a release with the
// permissions of their user need no engine for it.
type Recorded struct {
	*record.Record

	// Deployed is the time of the deployment, and Description Helm's text about it.
	Deployed    time.Time
	Description string
	// Chart and ChartVersion name the chart.
	Chart, ChartVersion string
	// Defaults are the chart's own values, and Values the values set over them. Both may be secret.
	Defaults, Values map[string]any

	release *releasev1.Release
}

// ReadRecorded reads a revision from the Secret of its record. It fails if the Secret is not a
// record, or the record is too large.
func ReadRecorded(secret *corev1.Secret) (*Recorded, error) {
	found := &Recorded{Record: record.Of(&metav1.PartialObjectMetadata{ObjectMeta: secret.ObjectMeta})}
	if found.Record == nil {
		return nil, fmt.Errorf("the Secret %s is not the record of a revision", secret.Name)
	}
	rls, _, err := record.Decode(secret.Data["release"], record.Size{Bytes: maxRecordedBytes, Nodes: record.MaxNodes})
	if err != nil {
		return nil, fmt.Errorf("read revision %d: %w", found.Revision, err)
	}
	if rls.Info == nil {
		return nil, fmt.Errorf("read revision %d: the record has no info", found.Revision)
	}
	rls.Labels = secret.Labels // The encoded release has none.
	found.release, found.Deployed, found.Description, found.Values = rls, rls.Info.LastDeployed, rls.Info.Description, rls.Config
	if rls.Chart != nil {
		found.Defaults = rls.Chart.Values
		if rls.Chart.Metadata != nil {
			found.Chart, found.ChartVersion = rls.Chart.Metadata.Name, rls.Chart.Metadata.Version
		}
	}
	return found, nil
}

// Release returns the namespace and the name of the release.
func (r *Recorded) Release() (namespace, name string) { return r.release.Namespace, r.release.Name }

// Matches reports whether the record has the content that a digest of the revision identifies.
func (r *Recorded) Matches(digest string) bool { return record.Matches(digest, r.release) }

// Objects returns the objects of the revision, as the engine applies them. Hooks are not among
// them. An object without a namespace is in the namespace of the release, or is cluster-scoped.
func (r *Recorded) Objects() ([]*unstructured.Unstructured, error) {
	return r.objects(r.release.Manifest, nil)
}

// Render returns the objects of the next revision, if the release were upgraded with the revision's
// chart and other values. Objects in the release's namespace get the owner. The template function
// lookup reads with the client of the getter, and only in the release's namespace.
func (r *Recorded) Render(
	ctx context.Context, values map[string]any, owner metav1.OwnerReference, client action.RESTClientGetter,
) ([]*unstructured.Unstructured, error) {
	if r.release.Chart == nil {
		return nil, fmt.Errorf("revision %d has no chart in its record", r.Revision)
	}
	objects, _, err := r.render(ctx, r.release.Chart, values, owner, recordedLookups{RESTClientGetter: client, namespace: r.release.Namespace})
	return objects, err
}

// RenderChart is like Render, with another chart. The template function lookup reads everywhere, unless
// bounded is set. It also returns the objects of the hooks of the upgrade, as the chart has them.
func (r *Recorded) RenderChart(
	ctx context.Context, c *chart.Chart, values map[string]any, owner metav1.OwnerReference, client action.RESTClientGetter, bounded bool,
) (objects, hooks []*unstructured.Unstructured, err error) {
	parsed, err := c.Parse()
	if err != nil {
		return nil, nil, err
	}
	if bounded {
		client = recordedLookups{RESTClientGetter: client, namespace: r.release.Namespace}
	}
	return r.render(ctx, parsed, values, owner, client)
}

func (r *Recorded) render(
	ctx context.Context, rendered *chartv2.Chart, values map[string]any, owner metav1.OwnerReference, client action.RESTClientGetter,
) (objects, hooks []*unstructured.Unstructured, err error) {
	name, version := "", ""
	if rendered.Metadata != nil {
		name, version = rendered.Metadata.Name, rendered.Metadata.Version
	}
	previous := *r.release
	info := *previous.Info
	info.Status = common.StatusDeployed
	previous.Info = &info
	cfg := action.NewConfiguration()
	cfg.RESTClientGetter = client
	cfg.KubeClient, cfg.CustomTemplateFuncs = renderOnly{}, (&functions.Rendering{Stop: ctx}).Functions()
	memory := driver.NewMemory()
	memory.SetNamespace(previous.Namespace)
	cfg.Releases = storage.Init(memory)
	if err := cfg.Releases.Create(&previous); err != nil {
		return nil, nil, err
	}
	if err := chart.CheckValues(rendered, values); err != nil {
		return nil, nil, fmt.Errorf("render chart %s %s: %w", name, version, err)
	}
	upgrade := action.NewUpgrade(cfg)
	upgrade.SkipSchemaValidation = true // Helm reads the addresses that a schema names.
	upgrade.Namespace, upgrade.ResetValues, upgrade.DryRunStrategy = previous.Namespace, true, action.DryRunServer
	upgrade.DisableOpenAPIValidation, upgrade.ServerSideApply, upgrade.WaitStrategy = true, "true", kube.HookOnlyStrategy
	result, err := upgrade.RunWithContext(ctx, previous.Name, rendered, values)
	next, err := releaseOf(result, err)
	if err != nil {
		return nil, nil, fmt.Errorf("render chart %s %s: %w", name, version, err)
	}
	mapper, err := client.ToRESTMapper()
	if err != nil {
		return nil, nil, err
	}
	if hooks, err = upgradeHooks(next); err != nil {
		return nil, nil, err
	}
	objects, err = r.objects(next.Manifest, &manifest.Owners{
		Owner: owner, Namespace: previous.Namespace, Renewed: true,
		Namespaced: func(kind schema.GroupVersionKind) (bool, error) {
			mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
			if err != nil {
				return false, err
			}
			return mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
		},
	})
	return objects, hooks, err
}

// upgradeHooks returns the objects of the hooks that run in the upgrade to a release.
func upgradeHooks(next *releasev1.Release) ([]*unstructured.Unstructured, error) {
	var found []*unstructured.Unstructured
	for _, hook := range next.Hooks {
		if !runsAt(hook, releasev1.HookPreUpgrade, releasev1.HookPostUpgrade) {
			continue
		}
		documents, err := manifest.Parse(hook.Manifest)
		if err != nil {
			return nil, fmt.Errorf("hook %s: %w", hook.Path, err)
		}
		for _, document := range documents {
			found = append(found, document.Objects...)
		}
	}
	return found, nil
}

// objects returns the objects of a manifest with the marks of the release and an owner, if any.
func (r *Recorded) objects(text string, owners *manifest.Owners) ([]*unstructured.Unstructured, error) {
	documents, err := manifest.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("revision %d: %w", r.Revision, err)
	}
	o := &operation{release: cache.NewObjectName(r.release.Namespace, r.release.Name)}
	var found []*unstructured.Unstructured
	add := func(object *unstructured.Unstructured) error {
		if owners != nil {
			if err := owners.Own(object); err != nil {
				return err
			}
		}
		o.claim(object)
		found = append(found, ssa.Prepare(object))
		return nil
	}
	for _, document := range documents {
		for _, object := range document.Objects {
			object = object.DeepCopy()
			if !object.IsList() {
				err = add(object)
			} else {
				err = object.EachListItem(func(item runtime.Object) error {
					child, ok := item.(*unstructured.Unstructured)
					if !ok {
						return fmt.Errorf("unexpected %T in a list", item)
					}
					return add(child)
				})
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// Sparing returns an object for a comparison with its live version by a dry run: in the fields that
// the rules ignore it has the live values.
func Sparing(object, live *unstructured.Unstructured, rules []IgnoreRule) *unstructured.Unstructured {
	return fields.Sparing(object, live, fields.IgnoredPaths(rules, object.GetKind(), object.GetName()))
}

// renderOnly is the client of an action that only renders. Helm builds the objects of the manifests
// to look for conflicts, which a comparison with the cluster shows better.
type renderOnly struct{ kube.Interface }

// Build implements kube.Interface.
func (renderOnly) Build(io.Reader, bool) (kube.ResourceList, error) { return kube.ResourceList{}, nil }

// IsReachable implements kube.Interface.
func (renderOnly) IsReachable() error { return nil }

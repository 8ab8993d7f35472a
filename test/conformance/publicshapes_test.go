// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/example/demoapp-controller/pkg/helm"
	"github.com/example/demoapp-controller/test/cluster"
)

// with returns the step followed by the work of controllers in the player's namespace.
func (s step) with(act func(ctx context.Context, t testing.TB, namespace, message string), message string) step {
	do := s.do
	s.do = func(t *testing.T, p player) error {
		t.Helper()
		if err := do(t, p); err != nil {
			return err
		}
		namespace, _ := p.home()
		act(t.Context(), t, namespace, message)
		return nil
	}
	return s
}

// text returns a text of random hexadecimal digits, which is compressed to about half its size.
func text(size int) string {
	const digits = "0123456789abcdef"
	random := rand.New(rand.NewPCG(1, 2))
	var written strings.Builder
	for range size {
		written.WriteByte(digits[random.IntN(len(digits))])
	}
	return written.String()
}

// TestPublicShapes uses charts in the shapes of public ones.
func TestPublicShapes(t *testing.T) {
	t.Parallel()
	makeOther := step{name: "make the namespace", do: func(t *testing.T, p player) error {
		t.Helper()
		namespace, _ := p.home()
		makeNamespace(t, namespace+otherNamespace)
		return nil
	}}
	newProcess := step{name: "new process", do: func(_ *testing.T, p player) error {
		if s, ok := p.(*stock); ok {
			s.connect()
		}
		return nil
	}}
	elsewhere := smallChart("", source{
		"templates/b.yaml": []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: @NAMESPACE@-other}\n"),
	})
	scenarios := []scenario{
		{
			name:       "webhooks with CA bundles of a controller, hooks that make certificates",
			everywhere: true,
			steps: []step{
				deploy("install", "webhooks", nil).with(injectCA, ""),
				deploy("upgrade", "webhooks", values{"timeout": 7}),
				deploy("upgrade of another object", "webhooks", values{"timeout": 7, "message": "two"}),
				rollback(1),
				uninstall,
			},
		},
		{
			name:       "aggregated ClusterRoles, PriorityClass, ValidatingAdmissionPolicy",
			everywhere: true,
			steps: []step{
				deploy("install", "policies", nil).with(awaitRules, "one"),
				deploy("upgrade", "policies", values{"message": "two", "maxReplicas": 6}).with(awaitRules, "two"),
				uninstall,
			},
		},
		{
			name: "autoscaled replicas, volume claims",
			steps: []step{
				deploy("install", "scaled", nil).with(scale, ""),
				deploy("upgrade", "scaled", values{"message": "two"}),
				deploy("other volume claims", "scaled", values{"storage": "2Gi"}).fails(classRefused).but(failureText),
				deploy("as before", "scaled", values{"message": "two"}),
				uninstall,
			},
		},
		{
			name: "sub-charts three deep",
			steps: []step{
				deploy("install", "deep", nil),
				deploy("tags and conditions", "deep", values{
					"tags": values{"optional": true}, "global": values{"deepest": false, "region": "south"},
					"middle": values{"bottom": values{"message": "From the values", "deepest": values{"message": "hidden"}}},
				}),
				deploy("values for the deepest", "deep", values{"middle": values{"bottom": values{"deepest": values{"message": "deep"}}}}),
				deploy("without the one in the middle", "deep", values{"middle": values{"bottom": values{"enabled": false}}}),
				uninstall,
			},
		},
		{
			name: "900 KiB of values, and more than a record can have",
			steps: []step{
				deploy("install", "large", values{"text": text(900 << 10)}),
				deploy("upgrade", "large", values{"text": text(850 << 10)}),
				deploy("too large", "large", values{"text": text(2 << 20)}).fails(classRefused),
				rollback(1),
				uninstall,
				deploy("too large from the beginning", "large", values{"text": text(2 << 20)}).fails(classRefused),
			},
		},
		{
			name:       "custom resource of a CRD in the templates",
			everywhere: true,
			steps: []step{
				deploy("install with both", "widgets", values{"widget": true}).fails(classKind),
				deploy("install of the CRD", "widgets", nil).with(awaitWidgets, ""),
				newProcess,
				deploy("upgrade with the custom resource", "widgets", values{"widget": true}),
				deploy("upgrade of the custom resource", "widgets", values{"widget": true, "message": "two"}),
				uninstall.but(withCRD),
			},
		},
		{
			name:       "namespace that does not exist yet",
			everywhere: true,
			steps: []step{
				deploySource("install", elsewhere).fails(classNamespace).but(failureText),
				makeOther,
				deploySource("install again", elsewhere).but(allRevisions),
				uninstall,
			},
		},
	}
	for _, scenario := range scenarios {
		t.Run(scenario.name, func(t *testing.T) {
			t.Parallel()
			scenario.play(t)
		})
	}
}

// awaitWidgets waits until the API server serves the CRD of the chart widgets.
func awaitWidgets(ctx context.Context, t testing.TB, namespace, _ string) {
	t.Helper()
	widgets := corev1.SchemeGroupVersion.WithResource("widgets")
	widgets.Group = namespace + ".example.com"
	cluster.Eventually(ctx, t, "the CRD", func(ctx context.Context) (bool, error) {
		_, err := shared.Dynamic.Resource(widgets).Namespace(namespace).List(ctx, metav1.ListOptions{})
		return err == nil, err
	})
}

// TestRefusedManifests asserts that the engine refuses manifests that cannot be applied as they
// are, before it creates anything, and shows Helm's behavior for the same manifests.
func TestRefusedManifests(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		manifest string
		// helm is a part of Helm's error; empty if Helm applies the manifest.
		helm string
		// engine is a part of the engine's error.
		engine string
	}{
		"object twice": {
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {a: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata: {b: two}\n",
			engine:   "/b from small/templates/b.yaml is in the manifest again",
		},
		"no name": {
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: \"\"}\n",
			helm:     "name", engine: "metadata.name is missing",
		},
		"generateName": {
			manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: b-}\n",
			helm:     "name", engine: "metadata.generateName is not supported",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chart := smallChart("", source{"templates/b.yaml": []byte(tc.manifest)})
			s, e := newStock(t, newNamespace(t), &journal{}), newEngine(t, newNamespace(t))

			stockErr := s.deploy(t.Context(), chart, nil)
			engineErr := e.deploy(t.Context(), chart, nil)

			if (stockErr != nil) != (tc.helm != "") || stockErr != nil && !strings.Contains(stockErr.Error(), tc.helm) {
				t.Errorf("helm: error is %v, want one that says %q", stockErr, tc.helm)
			}
			var refused *helm.RenderError
			if !errors.As(engineErr, &refused) || !strings.Contains(engineErr.Error(), tc.engine) {
				t.Errorf("engine: error is %v, want one that says %q", engineErr, tc.engine)
			}
			if got := look(t.Context(), t, e, nil); len(got.Objects) > 0 || len(got.Records) > 0 {
				t.Errorf("objects %v, records %v, want none", slices.Sorted(maps.Keys(got.Objects)), got.Records)
			}
		})
	}
}

// TestUnavailableAPIService deploys an API service whose server never answers. The status and the
// CA bundle that other clients write are no drift, and the release can be changed and removed. No
// other test runs at the same time, because the API service disturbs the discovery of all clients.
func TestUnavailableAPIService(t *testing.T) { //nolint:paralleltest // See above.
	if _, err := preferred(); err != nil {
		t.Fatal(err)
	}
	var counter requestCounter
	e := newEngine(t, newNamespace(t), everywhere, counter.get)
	chart, name := readChart(t, "apiservice"), "v1."+e.namespace+".metrics.example.com"
	services := shared.Dynamic.Resource(apiServices)
	t.Cleanup(func() {
		if err := services.Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
	})
	bundle := func() string {
		live, err := services.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedString(live.Object, "spec", "caBundle")
		return got
	}

	if err := e.deploy(t.Context(), chart, nil); err != nil {
		t.Fatal(err)
	}
	counter.atMost(t, "install", 3+6)
	patch := []byte(`[{"op": "add", "path": "/spec/caBundle", "value": "` + caBundle + `"}]`)
	if _, err := services.Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: otherManager}); err != nil {
		t.Fatal(err)
	}
	e.rests(e.desired(chart, nil), &counter)
	desired := e.desired(chart, values{"priority": 200, "message": "two"})
	if err := e.pass(t.Context(), desired); err != nil {
		t.Fatal(err)
	}
	counter.atMost(t, "upgrade", 2+5)
	if bundle() != caBundle {
		t.Error("the upgrade removed the CA bundle")
	}
	e.rests(desired, &counter)
	if err := e.uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := look(t.Context(), t, e, nil); len(left.Objects) > 0 {
		t.Errorf("after the uninstall, %v is left", slices.Sorted(maps.Keys(left.Objects)))
	}
}

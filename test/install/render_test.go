// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// Paths relative to this package.
const (
	installFile = "../../artifacts/install.yaml"
	base        = "../../artifacts/deploy"
	chartDir    = "../../artifacts/chart/demoapp-controller"
)

// The release that has the same names as the other two installations.
const (
	releaseName = "demoapp-controller"
	namespace   = "demoapp-system"
	// auditNamespace has the audit records.
	auditNamespace = "demoapp-audit"
)

// object is any Kubernetes object.
type object = unstructured.Unstructured

// values are values of the chart.
type values = map[string]any

// loadChart returns the chart.
func loadChart(t testing.TB) *chartv2.Chart {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// renderRelease renders the chart as "helm template" does.
func renderRelease(t testing.TB, name, namespace string, given values) (*releasev1.Release, error) {
	t.Helper()
	install := action.NewInstall(action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler)))
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = name, namespace
	version, err := common.ParseKubeVersion("v1.36.0")
	if err != nil {
		t.Fatal(err)
	}
	install.KubeVersion = version
	rendered, err := install.Run(loadChart(t), given)
	if err != nil {
		return nil, err
	}
	release, ok := rendered.(*releasev1.Release)
	if !ok {
		t.Fatalf("Helm rendered a %T", rendered)
	}
	return release, nil
}

// renderChart returns the objects of the chart with values, which must be valid.
func renderChart(t testing.TB, given values) []*object {
	t.Helper()
	release, err := renderRelease(t, releaseName, namespace, given)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, release.Manifest)
}

// renderBase returns the objects of the kustomize base.
func renderBase(t testing.TB) []*object {
	t.Helper()
	return renderKustomization(t, base)
}

// renderOverlay returns the objects of a kustomization whose paths begin with "artifacts/".
func renderOverlay(t testing.TB, kustomization string) []*object {
	t.Helper()
	// The temporary directory may be a symbolic link, which kustomize resolves.
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	artifacts, err := filepath.Abs("../../artifacts")
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(dir, artifacts)
	if err != nil {
		t.Fatal(err)
	}
	content := strings.ReplaceAll(kustomization, "- artifacts/", "- "+relative+"/")
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return renderKustomization(t, dir)
}

// renderKustomization returns the objects of a folder with a kustomization.
func renderKustomization(t testing.TB, dir string) []*object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	content, err := resources.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, string(content))
}

// readInstallFile returns the objects of artifacts/install.yaml.
func readInstallFile(t testing.TB) []*object {
	t.Helper()
	return readObjects(t, installFile, "")
}

// readObjects returns the objects of a file, as "kubectl apply --namespace" creates them.
func readObjects(t testing.TB, name, namespace string) []*object {
	t.Helper()
	objects := decode(t, readFile(t, name))
	for _, o := range objects {
		if namespace != "" && o.GetNamespace() == "" {
			o.SetNamespace(namespace)
		}
	}
	return objects
}

// readFile returns the text of a file.
func readFile(t testing.TB, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Clean(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// decode returns the objects of a stream of YAML documents. Documents without content are left out.
func decode(t testing.TB, stream string) []*object {
	t.Helper()
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(stream)))
	var objects []*object
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		decoded := &object{}
		if err := yaml.UnmarshalStrict(document, &decoded.Object); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if len(decoded.Object) > 0 {
			objects = append(objects, decoded)
		}
	}
}

// id identifies an object in messages and maps.
func id(o *object) string {
	return strings.Join([]string{o.GetKind(), o.GetNamespace(), o.GetName()}, "/")
}

// find returns the object of a kind and name.
func find(t testing.TB, objects []*object, kind, name string) *object {
	t.Helper()
	for _, o := range objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// toYAML encodes a value.
func toYAML(t testing.TB, value any) string {
	t.Helper()
	content, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

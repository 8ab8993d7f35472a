// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build conformance

package conformance

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	chartcommon "helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/release/common"
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/storage"
	"helm.sh/helm/v4/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// recordPrefix begins the names of the Secrets that hold release records.
const recordPrefix = storage.HelmStorageType + "."

// releasesIn reads all release records of a namespace with Helm's own driver, by the names of their
// Secrets.
func releasesIn(ctx context.Context, t testing.TB, namespace string) (map[string]*releasev1.Release, map[string]corev1.Secret) {
	t.Helper()
	client := shared.Client.CoreV1().Secrets(namespace)
	secrets, err := client.List(ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
	if err != nil {
		t.Fatal(err)
	}
	reader := driver.NewSecrets(client)
	releases, byName := map[string]*releasev1.Release{}, map[string]corev1.Secret{}
	for _, secret := range secrets.Items {
		read, err := reader.Get(secret.Name)
		if err != nil {
			t.Fatalf("read %s: %v", secret.Name, err)
		}
		releases[secret.Name], byName[secret.Name] = read.(*releasev1.Release), secret
	}
	return releases, byName
}

// recordsIn returns the release records of a namespace as comparable values.
func recordsIn(ctx context.Context, t testing.TB, namespace string) map[string]any {
	t.Helper()
	releases, secrets := releasesIn(ctx, t, namespace)
	records := map[string]any{}
	for name, release := range releases {
		data, err := json.Marshal(release)
		if err != nil {
			t.Fatal(err)
		}
		fields := map[string]any{}
		if err := json.Unmarshal(data, &fields); err != nil {
			t.Fatal(err)
		}
		info := fields["info"].(map[string]any)
		for _, key := range []string{"first_deployed", "last_deployed", "deleted"} {
			if info[key] != nil {
				info[key] = "some time"
			}
		}
		fields["chart"] = chartOf(release)
		fields["hooks"] = hooksIn(fields["hooks"])
		fields["secret"] = secretOf(secrets[name])
		records[name] = anonymize(fields, namespace, "")
	}
	return records
}

// chartOf returns the record's chart, with its files as text.
func chartOf(release *releasev1.Release) any {
	files := func(files []*chartcommon.File) map[string]any {
		byName := map[string]any{}
		for _, file := range files {
			byName[file.Name] = string(file.Data)
		}
		return byName
	}
	metadata, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(release.Chart.Metadata)
	return map[string]any{
		"metadata": metadata, "lock": release.Chart.Lock != nil, "schema": string(release.Chart.Schema),
		"values":    runtime.DeepCopyJSONValue(jsonOf(release.Chart.Values)),
		"templates": files(release.Chart.Templates), "files": files(release.Chart.Files),
	}
}

// jsonOf converts a value to one of JSON.
func jsonOf(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return err.Error()
	}
	return plain
}

// hooksIn returns the record's hooks, without the times of their last runs.
func hooksIn(hooks any) any {
	list, _ := hooks.([]any)
	for _, hook := range list {
		run, _ := hook.(map[string]any)["last_run"].(map[string]any)
		for _, key := range []string{"started_at", "completed_at"} {
			if run[key] != nil {
				run[key] = "some time"
			}
		}
	}
	return list
}

// engineLabels is the prefix of the labels that only the engine's records have.
const engineLabels = "engine.demo.example.com/"

// secretOf returns the record's Secret without its content.
func secretOf(secret corev1.Secret) any {
	labels := maps.Clone(secret.Labels)
	delete(labels, "createdAt")
	delete(labels, "modifiedAt")
	maps.DeleteFunc(labels, func(label, _ string) bool { return strings.HasPrefix(label, engineLabels) })
	return jsonOf(map[string]any{"type": secret.Type, "labels": labels, "annotations": secret.Annotations})
}

// isPending reports whether an operation on a release is unfinished.
func isPending(release *releasev1.Release) bool {
	return release.Info.Status.IsPending() || release.Info.Status == common.StatusUninstalling
}

// newestRelease returns the release record with the highest revision; nil without records.
func newestRelease(ctx context.Context, t testing.TB, namespace string) *releasev1.Release {
	t.Helper()
	releases, _ := releasesIn(ctx, t, namespace)
	var newest *releasev1.Release
	for _, release := range releases {
		if newest == nil || release.Version > newest.Version {
			newest = release
		}
	}
	return newest
}

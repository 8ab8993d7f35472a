// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	"github.com/example/demoapp-controller/test/cluster"
)

// labeledResources are the resources of the objects of a platform, with the number of objects of a
// database with TLS, backups and one run, in an environment with two servers.
var labeledResources = map[schema.GroupVersionResource]int{
	{Version: "v1", Resource: "pods"}:                                            6, // 2 servers, cache, backend, frontend, and the run
	{Version: "v1", Resource: "services"}:                                        6,
	{Version: "v1", Resource: "secrets"}:                                         2,
	{Version: "v1", Resource: "configmaps"}:                                      4, // 2 of scripts, the CA, the dashboard
	{Version: "v1", Resource: "persistentvolumeclaims"}:                          2,
	{Group: "apps", Version: "v1", Resource: "statefulsets"}:                     1,
	{Group: "apps", Version: "v1", Resource: "deployments"}:                      3,
	{Group: "apps", Version: "v1", Resource: "replicasets"}:                      3,
	{Group: "batch", Version: "v1", Resource: "cronjobs"}:                        1,
	{Group: "batch", Version: "v1", Resource: "jobs"}:                            1,
	{Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"}:           1,
	{Group: "database.example.com", Version: "v1", Resource: "postgresqls"}:      1,
	{Group: "backup.example.com", Version: "v1", Resource: "backups"}:            1,
	{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}: 1,
	{Group: "networking.k8s.io", Version: "v1", Resource: "ingresses"}:           1,
}

// TestPlatformLabelsAllObjects: all objects of a platform have its label, also those that its
// database and Backup make, and their pods. Only objects of users and of the namespace have none.
func TestPlatformLabelsAllObjects(t *testing.T) {
	t.Parallel()
	s := newShops(t)
	createKeys(t, s.namespace, "bucket", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
	s.create(shopHost("labels.example.com"), func(spec *platformv1.EcommercePlatformSpec) {
		spec.Environment = platformv1.EnvironmentStaging
		spec.Database.Backup = &platformv1.PlatformBackup{Destination: &backupv1.Destination{Type: "s3", Bucket: "dumps", CredentialsSecret: "bucket"}}
	})
	s.awaitReady()
	patch := func(resource schema.GroupVersionResource, name, patch string) {
		t.Helper()
		_, err := shared.Dynamic.Resource(resource).Namespace(s.namespace).Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}

	patch(postgreSQLResource, "shop-db", `{"spec":{"tls":{}}}`)
	patch(backupResource, "shop-db-backup", fmt.Sprintf(`{"metadata":{"annotations":{%q:"1"}}}`, backupv1.AnnotationRunNow))

	for resource, want := range labeledResources {
		cluster.Eventually(t.Context(), t, fmt.Sprintf("%d %s with the label", want, resource.Resource), func(ctx context.Context) (bool, error) {
			list, err := shared.Dynamic.Resource(resource).Namespace(s.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, err
			}
			var labeled, others []string
			for _, object := range list.Items {
				switch name := object.GetName(); {
				case object.GetLabels()["platform"] == "shop":
					labeled = append(labeled, name)
				case !slices.Contains([]string{"bucket", "kube-root-ca.crt"}, name):
					others = append(others, name)
				}
			}
			if len(labeled) != want || len(others) > 0 {
				return false, fmt.Errorf("with the label: %q, without: %q", labeled, others)
			}
			return true, nil
		})
	}
}

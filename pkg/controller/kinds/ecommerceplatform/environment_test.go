// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ecommerceplatform

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/utils/ptr"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	platformv1 "github.com/example/demoapp-controller/pkg/apis/platform/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
)

func TestDatabaseByEnvironment(t *testing.T) {
	bucket := backupv1.Destination{Type: "s3", Bucket: "dumps", CredentialsSecret: "bucket"}
	defaults := &tier.Backups{Schedule: "0 2 * * *", Retention: "30d", HasDestination: true, Destination: &bucket}
	given := func(enabled *bool) *platformv1.PlatformBackup {
		return &platformv1.PlatformBackup{Enabled: enabled, Destination: &bucket}
	}
	tests := []struct {
		name        string
		environment string
		given       platformv1.PlatformDatabase
		want        tier.Server
		on          bool
	}{
		{
			"development", "development",
			platformv1.PlatformDatabase{Type: "postgresql", Backup: given(nil)},
			tier.Server{Type: "postgresql", Version: "17", Storage: "10Gi", Replicas: 1},
			false,
		},
		{
			"staging", "staging",
			platformv1.PlatformDatabase{Type: "postgresql", Backup: given(nil)},
			tier.Server{Type: "postgresql", Version: "17", Storage: "50Gi", Replicas: 2, Backups: defaults},
			true,
		},
		{
			"production", "production",
			platformv1.PlatformDatabase{Type: "postgresql", Backup: given(nil)},
			tier.Server{Type: "postgresql", Version: "17", Storage: "100Gi", Replicas: 3, Backups: defaults},
			true,
		},
		{
			"production without a destination", "production",
			platformv1.PlatformDatabase{Type: "postgresql"},
			tier.Server{
				Type: "postgresql", Version: "17", Storage: "100Gi", Replicas: 3,
				Backups: &tier.Backups{Schedule: "0 2 * * *", Retention: "30d"},
			},
			true,
		},
		{
			"given values", "production",
			platformv1.PlatformDatabase{Type: "postgresql", Version: "15", Storage: "20Gi", Replicas: ptr.To[int32](2), Backup: given(ptr.To(false))},
			tier.Server{Type: "postgresql", Version: "15", Storage: "20Gi", Replicas: 2},
			false,
		},
		{
			"given backups", "development",
			platformv1.PlatformDatabase{Type: "postgresql", Backup: &platformv1.PlatformBackup{
				Enabled: ptr.To(true), Schedule: "@daily", Retention: "8w", Destination: &bucket,
			}},
			tier.Server{
				Type: "postgresql", Version: "17", Storage: "10Gi", Replicas: 1,
				Backups: &tier.Backups{Schedule: "@daily", Retention: "8w", HasDestination: true, Destination: &bucket},
			},
			true,
		},
		{
			"mysql", "production",
			platformv1.PlatformDatabase{Type: "mysql"},
			tier.Server{
				Type: "mysql", Version: "8.4", Storage: "100Gi", Replicas: 1,
				Backups: &tier.Backups{Schedule: "0 2 * * *", Retention: "30d"},
			},
			true,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			spec := platformv1.EcommercePlatformSpec{Environment: test.environment, Database: test.given}

			got := desiredDatabase(&platformv1.EcommercePlatform{Spec: spec}, datastore.DefaultDestination{})

			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(tier.Server{}, "StorageSource")); diff != "" {
				t.Errorf("database (-want +got):\n%s", diff)
			}
			if on := backupsOn(spec); on != test.on {
				t.Errorf("backups are on: %t, want %t", on, test.on)
			}
		})
	}
}

func TestPortOfComponent(t *testing.T) {
	tests := map[string]struct {
		image string
		given int32
		want  int32
	}{
		"an image of a team":            {"registry.example.com/shop/frontend:v1", 0, 8080},
		"a web server":                  {"nginx:1.27-alpine", 0, 80},
		"with the registry":             {"docker.io/library/nginx@sha256:" + strings.Repeat("0", 64), 0, 80},
		"a web server without root":     {"nginxinc/nginx-unprivileged:1.27-alpine", 0, 8080},
		"a web server of a registry":    {"registry.example.com/nginx:1.27-alpine", 0, 8080},
		"a given port":                  {"registry.example.com/shop/frontend:v1", 3000, 3000},
		"a given port of a web server":  {"nginx:1.27-alpine", 8080, 8080},
		"an image that no name matches": {"UPPER", 0, 8080},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := workloadOf(platformv1.PlatformComponent{Image: test.image, Port: test.given}).Port; got != test.want {
				t.Errorf("port is %d, want %d", got, test.want)
			}
		})
	}
}

// TestProfileOfPlatform: the namespace or a field asks for the restricted profile.
func TestProfileOfPlatform(t *testing.T) {
	user := &workloadv1alpha1.UserContext{RunAsUser: ptr.To[int64](101)}
	platform := &platformv1.EcommercePlatform{Spec: platformv1.EcommercePlatformSpec{
		Environment: platformv1.EnvironmentStaging, Frontend: platformv1.PlatformComponent{Image: "nginx", SecurityContext: user},
	}}
	for _, restricted := range []bool{false, true} {
		app := application(platform, datastore.DefaultDestination{}, restricted)

		if app.Restricted != restricted || app.Frontend.User != user || app.Backend.User != nil {
			t.Errorf("application is %+v, want the user of the frontend, and restricted %t", app, restricted)
		}
	}
}

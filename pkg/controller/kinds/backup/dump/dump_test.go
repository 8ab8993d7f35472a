// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dump_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/dump"
	"github.com/example/demoapp-controller/test/expect"
)

func sample(change func(*backupv1.BackupSpec)) *backupv1.Backup {
	b := &backupv1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "uid-1"},
		Spec: backupv1.BackupSpec{
			Source: backupv1.Source{Type: "postgresql", Connection: backupv1.Connection{Host: "db", Database: "orders", CredentialsSecret: "login"}},
			Destination: backupv1.Destination{
				Type: "s3", Bucket: "backups", Prefix: "team", Endpoint: "https://s3.example.com", CredentialsSecret: "keys",
			},
		},
	}
	if change != nil {
		change(&b.Spec)
	}
	return b
}

// environment returns the variables of a container as lines.
func environment(container corev1ac.ContainerApplyConfiguration) []string {
	var lines []string
	for _, env := range container.Env {
		if env.Value != nil {
			lines = append(lines, *env.Name+"="+*env.Value)
			continue
		}
		from, may := env.ValueFrom.SecretKeyRef, ""
		if from.Optional != nil && *from.Optional {
			may = " if given"
		}
		lines = append(lines, fmt.Sprintf("%s from %s/%s%s", *env.Name, *from.Name, *from.Key, may))
	}
	return lines
}

func TestEnvironmentOfContainers(t *testing.T) {
	pod := dump.Pod(sample(nil), dump.Settings{ConfigMap: "orders-scripts", Retention: 3600, Namespace: "namespace-1"})

	paths := []string{"BACKUP_TYPE=postgresql", "BACKUP_NAME=shop.orders", "BACKUP_DIR=/backup", "BACKUP_SECRETS_DIR=/secrets", "HOME=/backup", "TMPDIR=/backup"}
	if diff := cmp.Diff(append(paths,
		"BACKUP_HOST=db", "BACKUP_PORT=5432", "BACKUP_DATABASE=orders", "BACKUP_USERNAME from login/username", "BACKUP_PASSWORD from login/password",
	), environment(pod.InitContainers[0])); diff != "" {
		t.Errorf("environment of the dump (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(append(paths,
		"BACKUP_BUCKET=backups", "BACKUP_PREFIX=team", "BACKUP_UID=uid-1", "BACKUP_NAMESPACE_UID=namespace-1",
		"BACKUP_TAKE_OVER_FROM=", "BACKUP_RETENTION_SECONDS=3600",
		"RCLONE_CONFIG_DEST_ENDPOINT=https://s3.example.com", "RCLONE_CONFIG_DEST_FORCE_PATH_STYLE=true",
		"RCLONE_CONFIG_DEST_NO_CHECK_BUCKET=true", "RCLONE_CONFIG_DEST_PROVIDER=Other", "RCLONE_CONFIG_DEST_TYPE=s3",
		"RCLONE_CONFIG_DEST_ACCESS_KEY_ID from keys/AWS_ACCESS_KEY_ID", "RCLONE_CONFIG_DEST_SECRET_ACCESS_KEY from keys/AWS_SECRET_ACCESS_KEY",
		"RCLONE_CONFIG_DEST_SESSION_TOKEN from keys/AWS_SESSION_TOKEN if given", "HTTPS_PROXY from keys/HTTPS_PROXY if given",
	), environment(pod.Containers[0])); diff != "" {
		t.Errorf("environment of the upload (-want +got):\n%s", diff)
	}
}

func TestDestinations(t *testing.T) {
	tests := map[string][]string{
		"s3": {
			"RCLONE_CONFIG_DEST_NO_CHECK_BUCKET=true", "RCLONE_CONFIG_DEST_PROVIDER=AWS", "RCLONE_CONFIG_DEST_TYPE=s3",
			"RCLONE_CONFIG_DEST_ACCESS_KEY_ID from keys/AWS_ACCESS_KEY_ID", "RCLONE_CONFIG_DEST_SECRET_ACCESS_KEY from keys/AWS_SECRET_ACCESS_KEY",
			"RCLONE_CONFIG_DEST_SESSION_TOKEN from keys/AWS_SESSION_TOKEN if given",
		},
		"gcs": {
			"RCLONE_CONFIG_DEST_BUCKET_POLICY_ONLY=true", "RCLONE_CONFIG_DEST_NO_CHECK_BUCKET=true",
			"RCLONE_CONFIG_DEST_TYPE=google cloud storage", "RCLONE_CONFIG_DEST_SERVICE_ACCOUNT_CREDENTIALS from keys/GOOGLE_CREDENTIALS",
		},
		"azure": {
			"RCLONE_CONFIG_DEST_NO_CHECK_CONTAINER=true", "RCLONE_CONFIG_DEST_TYPE=azureblob",
			"RCLONE_CONFIG_DEST_ACCOUNT from keys/AZURE_STORAGE_ACCOUNT", "RCLONE_CONFIG_DEST_KEY from keys/AZURE_STORAGE_KEY",
		},
	}
	for kind, want := range tests {
		t.Run(kind, func(t *testing.T) {
			b := sample(func(s *backupv1.BackupSpec) { s.Destination.Type, s.Destination.Endpoint = kind, "" })

			var got, keys []string
			for _, line := range environment(dump.Pod(b, dump.Settings{ConfigMap: "orders-scripts"}).Containers[0]) {
				if strings.HasPrefix(line, "RCLONE") {
					got = append(got, line)
				}
				if _, key, ok := strings.Cut(line, " from keys/"); ok && !strings.HasSuffix(key, " if given") {
					keys = append(keys, key)
				}
			}

			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration of rclone (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(keys, dump.Keys(b.Spec.Destination)); diff != "" {
				t.Errorf("keys of the Secret (-environment +Keys):\n%s", diff)
			}
		})
	}
}

// TestCredentialsOfPod: without a Secret, rclone takes the credentials that the cloud has given to the pod.
func TestCredentialsOfPod(t *testing.T) {
	for kind, want := range map[string][]string{
		"s3": {
			"RCLONE_CONFIG_DEST_ENV_AUTH=true", "RCLONE_CONFIG_DEST_NO_CHECK_BUCKET=true", "RCLONE_CONFIG_DEST_PROVIDER=AWS", "RCLONE_CONFIG_DEST_TYPE=s3",
		},
		"gcs": {
			"RCLONE_CONFIG_DEST_BUCKET_POLICY_ONLY=true", "RCLONE_CONFIG_DEST_ENV_AUTH=true", "RCLONE_CONFIG_DEST_NO_CHECK_BUCKET=true",
			"RCLONE_CONFIG_DEST_TYPE=google cloud storage",
		},
		"azure": {"RCLONE_CONFIG_DEST_ENV_AUTH=true", "RCLONE_CONFIG_DEST_NO_CHECK_CONTAINER=true", "RCLONE_CONFIG_DEST_TYPE=azureblob"},
	} {
		t.Run(kind, func(t *testing.T) {
			b := sample(func(s *backupv1.BackupSpec) {
				s.Destination = backupv1.Destination{Type: kind, Bucket: "backups"}
				s.ServiceAccountName = "backups"
			})

			pod := dump.Pod(b, dump.Settings{ConfigMap: "orders-scripts"})

			var got []string
			for _, line := range environment(pod.Containers[0]) {
				if strings.HasPrefix(line, "RCLONE") || strings.Contains(line, " from ") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration of rclone (-want +got):\n%s", diff)
			}
			expect.Equal(t, "account", "backups", *pod.ServiceAccountName)
			expect.Equal(t, "token of the API", false, *pod.AutomountServiceAccountToken)
		})
	}
}

func TestOptionsOfS3(t *testing.T) {
	b := sample(func(s *backupv1.BackupSpec) {
		s.Destination.Region, s.Destination.ServerSideEncryption, s.Destination.KMSKeyID = "eu-central-1", "aws:kms", "alias/backups"
		s.Destination.CABundle, s.Destination.TakeOverFrom = "-----BEGIN CERTIFICATE-----", "uid-0"
	})

	got := environment(dump.Pod(b, dump.Settings{ConfigMap: "orders-scripts"}).Containers[0])

	for _, want := range []string{
		"RCLONE_CONFIG_DEST_REGION=eu-central-1", "RCLONE_CONFIG_DEST_SERVER_SIDE_ENCRYPTION=aws:kms",
		"RCLONE_CONFIG_DEST_SSE_KMS_KEY_ID=alias/backups", "RCLONE_CA_CERT=/scripts/ca.crt", "BACKUP_TAKE_OVER_FROM=uid-0",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("environment lacks %s:\n%s", want, strings.Join(got, "\n"))
		}
	}
	expect.Equal(t, "certificates", "-----BEGIN CERTIFICATE-----", dump.Files(b)["ca.crt"])
}

func TestProviderOfEndpoint(t *testing.T) {
	for endpoint, own := range map[string]bool{
		"https://s3-fips.us-gov-west-1.amazonaws.com":              true,
		"https://bucket.vpce-1a2b.s3.eu-west-1.vpce.amazonaws.com": true,
		"https://s3.dualstack.EU-central-1.AmazonAWS.com:443/":     true,
		"https://s3.cn-north-1.amazonaws.com.cn":                   true,
		"https://amazonaws.com.example.com":                        false,
		"https://minio.example.com/amazonaws.com":                  false,
		"http://minio.storage:9000":                                false,
		"https://storage.googleapis.com":                           false,
	} {
		t.Run(endpoint, func(t *testing.T) {
			b := sample(func(s *backupv1.BackupSpec) { s.Destination.Endpoint = endpoint })

			got := environment(dump.Pod(b, dump.Settings{ConfigMap: "orders-scripts"}).Containers[0])

			expect.Equal(t, "provider AWS", own, slices.Contains(got, "RCLONE_CONFIG_DEST_PROVIDER=AWS"))
			expect.Equal(t, "bucket in the path", !own, slices.Contains(got, "RCLONE_CONFIG_DEST_FORCE_PATH_STYLE=true"))
			expect.Equal(t, "endpoint", true, slices.Contains(got, "RCLONE_CONFIG_DEST_ENDPOINT="+endpoint))
		})
	}
}

func TestVolume(t *testing.T) {
	tests := map[string]struct {
		volume *backupv1.Volume
		want   string
	}{
		"default":             {nil, `{"name":"backup","emptyDir":{"sizeLimit":"50Gi"}}`},
		"a size":              {&backupv1.Volume{Size: "2Ti"}, `{"name":"backup","emptyDir":{"sizeLimit":"2Ti"}}`},
		"a size that is none": {&backupv1.Volume{Size: "much"}, `{"name":"backup","emptyDir":{"sizeLimit":"50Gi"}}`},
		"a storage class": {&backupv1.Volume{Size: "1Gi", StorageClassName: "fast"}, `{"name":"backup","ephemeral":{"volumeClaimTemplate":` +
			`{"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"storageClassName":"fast"}}}}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := dump.Pod(sample(func(s *backupv1.BackupSpec) { s.Volume = test.volume }), dump.Settings{})

			got, err := json.Marshal(pod.Volumes[1])

			expect.NoError(t, err)
			expect.Equal(t, "volume", test.want, string(got))
			expect.Equal(t, "group of the volume", strings.Contains(test.want, "ephemeral"), pod.SecurityContext.FSGroup != nil)
		})
	}
}

func TestSources(t *testing.T) {
	tests := []struct {
		kind        string
		port        int32
		image, want string
	}{
		{"postgresql", 0, "postgres:18-alpine", "BACKUP_PORT=5432"},
		{"postgresql", 6432, "postgres:18-alpine", "BACKUP_PORT=6432"},
		{"mysql", 0, "mysql:8.4", "BACKUP_PORT=3306"},
		{"mongodb", 0, "mongo:8.0", "BACKUP_PORT=27017"},
	}
	for _, test := range tests {
		t.Run(test.kind, func(t *testing.T) {
			b := sample(func(s *backupv1.BackupSpec) { s.Source.Type, s.Source.Connection.Port = test.kind, test.port })

			dumper := dump.Pod(b, dump.Settings{ConfigMap: "orders-scripts"}).InitContainers[0]

			if *dumper.Image != test.image || !strings.Contains(strings.Join(environment(dumper), "\n"), test.want) {
				t.Errorf("image is %s, environment is %q, want %s and %s", *dumper.Image, environment(dumper), test.image, test.want)
			}
		})
	}
}

func TestImageOfTheSource(t *testing.T) {
	b := sample(func(s *backupv1.BackupSpec) { s.Source.Image = "postgres:16" })

	pod := dump.Pod(b, dump.Settings{})

	expect.Equal(t, "image", "postgres:16", *pod.InitContainers[0].Image)
}

func TestParseRetention(t *testing.T) {
	const hour, day = 60 * 60, 24 * 60 * 60
	valid := map[string]int64{"12h": 12 * hour, "1d": day, "30d": 30 * day, "8w": 56 * day, "99999w": 50 * 365 * day}
	for text, want := range valid {
		if got, err := dump.ParseRetention(text); got != want || err != nil {
			t.Errorf("%q is %d seconds (%v), want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "30", "0d", "-1d", "1.5d", "30 d", "30D", "d30", "99999999999999999999h"} {
		if got, err := dump.ParseRetention(text); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is %d seconds, and the error is %v, want an error in one line", text, got, err)
		}
	}
}

// TestScriptsTakeValuesFromTheEnvironment: text that is put into a script could be run by its
// shell.
func TestScriptsTakeValuesFromTheEnvironment(t *testing.T) {
	for name, script := range dump.Scripts() {
		if !strings.Contains(script, "lib.sh") && name != "lib.sh" {
			t.Errorf("%s does not use lib.sh", name)
		}
		for _, marker := range []string{"{{", "eval "} {
			if strings.Contains(script, marker) {
				t.Errorf("%s has %q", name, marker)
			}
		}
	}
}

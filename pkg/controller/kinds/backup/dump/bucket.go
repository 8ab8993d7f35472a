// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"maps"
	"slices"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

// prefix begins the names of the variables that configure the remote DEST.
const prefix = "RCLONE_CONFIG_DEST_"

// provider is how rclone reaches a storage system.
type provider struct {
	// options are settings of rclone, and credentials are settings that come from keys of the
	// Secret.
	options     map[string]string
	credentials []credential
}

type credential struct{ option, key string }

// providers are the storage systems, by the type of the destination. rclone must not create a
// bucket.
var providers = map[string]provider{
	backupv1.DestinationS3: {
		map[string]string{"TYPE": "s3", "PROVIDER": "AWS", "NO_CHECK_BUCKET": "true"},
		[]credential{{"ACCESS_KEY_ID", backupv1.KeyS3AccessKeyID}, {"SECRET_ACCESS_KEY", backupv1.KeyS3SecretAccessKey}},
	},
	backupv1.DestinationGCS: {
		map[string]string{"TYPE": "google cloud storage", "BUCKET_POLICY_ONLY": "true", "NO_CHECK_BUCKET": "true"},
		[]credential{{"SERVICE_ACCOUNT_CREDENTIALS", backupv1.KeyGCSCredentials}},
	},
	backupv1.DestinationAzure: {
		map[string]string{"TYPE": "azureblob", "NO_CHECK_CONTAINER": "true"},
		[]credential{{"ACCOUNT", backupv1.KeyAzureAccount}, {"KEY", backupv1.KeyAzureKey}},
	},
}

// environment returns the variables that configure rclone's remote DEST, in a fixed order.
func environment(d backupv1.Destination) []*corev1ac.EnvVarApplyConfiguration {
	p := providers[d.Type]
	options := maps.Clone(p.options)
	optional := map[string]string{
		"ENDPOINT": d.Endpoint, "REGION": d.Region, "SERVER_SIDE_ENCRYPTION": d.ServerSideEncryption, "SSE_KMS_KEY_ID": d.KMSKeyID,
	}
	maps.DeleteFunc(optional, func(_, value string) bool { return value == "" })
	maps.Copy(options, optional)
	if d.Endpoint != "" {
		if d.Type == backupv1.DestinationS3 {
			options["PROVIDER"], options["FORCE_PATH_STYLE"] = "Other", "true"
		}
	}
	var env []*corev1ac.EnvVarApplyConfiguration
	for _, name := range slices.Sorted(maps.Keys(options)) {
		env = append(env, workload.Value(prefix+name, options[name]))
	}
	if d.CABundle != "" {
		env = append(env, workload.Value("RCLONE_CA_CERT", "/scripts/"+caFile))
	}
	for _, from := range p.credentials {
		env = append(env, workload.FromSecret(prefix+from.option, d.CredentialsSecret, from.key))
	}
	return env
}

// AllKeys returns the sorted keys that the Secrets of destinations of any type must have.
func AllKeys() []string {
	var keys []string
	for name := range providers {
		keys = append(keys, Keys(backupv1.Destination{Type: name})...)
	}
	slices.Sort(keys)
	return keys
}

// Keys returns the keys that the Secret of a destination must have.
func Keys(d backupv1.Destination) []string {
	var keys []string
	for _, from := range providers[d.Type].credentials {
		keys = append(keys, from.key)
	}
	return keys
}

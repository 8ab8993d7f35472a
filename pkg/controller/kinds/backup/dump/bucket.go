// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package dump

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

const (
	// prefix begins the names of the variables that configure the remote DEST.
	prefix = "RCLONE_CONFIG_DEST_"
	// sessionKey is the key with the token of temporary credentials.
	sessionKey = "AWS_SESSION_TOKEN"
)

// provider is how rclone reaches a storage system.
type provider struct {
	// options are settings of rclone, and credentials are settings that come from keys of the
	// Secret.
	options     map[string]string
	credentials []credential
	// optional are credentials whose keys the Secret may lack.
	optional []credential
}

// proxy is the variable, and the key of the Secret, with the URL of a proxy. The URL may have a
// password, so it is not a field.
const proxy = "HTTPS_PROXY"

type credential struct{ option, key string }

// providers are the storage systems, by the type of the destination. rclone must not create a
// bucket.
var providers = map[string]provider{
	backupv1.DestinationS3: {
		map[string]string{"TYPE": "s3", "PROVIDER": "AWS", "NO_CHECK_BUCKET": "true"},
		[]credential{{"ACCESS_KEY_ID", backupv1.KeyS3AccessKeyID}, {"SECRET_ACCESS_KEY", backupv1.KeyS3SecretAccessKey}},
		[]credential{{"SESSION_TOKEN", sessionKey}},
	},
	backupv1.DestinationGCS: {
		map[string]string{"TYPE": "google cloud storage", "BUCKET_POLICY_ONLY": "true", "NO_CHECK_BUCKET": "true"},
		[]credential{{"SERVICE_ACCOUNT_CREDENTIALS", backupv1.KeyGCSCredentials}},
		nil,
	},
	backupv1.DestinationAzure: {
		map[string]string{"TYPE": "azureblob", "NO_CHECK_CONTAINER": "true"},
		[]credential{{"ACCOUNT", backupv1.KeyAzureAccount}, {"KEY", backupv1.KeyAzureKey}},
		nil,
	},
}

// environment returns the variables that configure rclone's remote DEST, in a fixed order. Without a
// Secret, rclone takes the credentials that the cloud has given to the pod.
func environment(d backupv1.Destination) []*corev1ac.EnvVarApplyConfiguration {
	p := providers[d.Type]
	options := maps.Clone(p.options)
	optional := map[string]string{
		"ENDPOINT": d.Endpoint, "REGION": d.Region, "SERVER_SIDE_ENCRYPTION": d.ServerSideEncryption, "SSE_KMS_KEY_ID": d.KMSKeyID,
	}
	maps.DeleteFunc(optional, func(_, value string) bool { return value == "" })
	maps.Copy(options, optional)
	if d.Type == backupv1.DestinationS3 && d.Endpoint != "" && !isAWS(d.Endpoint) {
		options["PROVIDER"], options["FORCE_PATH_STYLE"] = "Other", "true"
	}
	if d.CredentialsSecret == "" {
		options["ENV_AUTH"] = "true"
	}
	var env []*corev1ac.EnvVarApplyConfiguration
	for _, name := range slices.Sorted(maps.Keys(options)) {
		env = append(env, workload.Value(prefix+name, options[name]))
	}
	if d.CABundle != "" {
		env = append(env, workload.Value("RCLONE_CA_CERT", "/scripts/"+caFile))
	}
	if d.CredentialsSecret == "" {
		return env
	}
	for _, from := range p.credentials {
		env = append(env, workload.FromSecret(prefix+from.option, d.CredentialsSecret, from.key))
	}
	for _, from := range p.optional {
		env = append(env, ifGiven(workload.FromSecret(prefix+from.option, d.CredentialsSecret, from.key)))
	}
	return append(env, ifGiven(workload.FromSecret(proxy, d.CredentialsSecret, proxy)))
}

// ifGiven leaves a variable out if the Secret lacks its key.
func ifGiven(variable *corev1ac.EnvVarApplyConfiguration) *corev1ac.EnvVarApplyConfiguration {
	variable.ValueFrom.SecretKeyRef.WithOptional(true)
	return variable
}

// isAWS reports whether an endpoint is one of AWS, such as one with FIPS or of a VPC. These have the
// name of the bucket in the host: https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html.
// Other servers seldom have a DNS name and a certificate for each bucket.
func isAWS(endpoint string) bool {
	parsed, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	host := strings.ToLower(parsed.Hostname())
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn")
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

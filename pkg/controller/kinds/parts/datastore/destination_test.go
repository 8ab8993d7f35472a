// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"testing"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/test/expect"
)

func TestDefaultDestination(t *testing.T) {
	given := backupv1.Destination{Type: "gcs", Bucket: "theirs"}
	byDefault, err := datastore.ParseDestination(map[string]string{
		"type": "s3", "bucket": "backups", "prefix": "prod/eu", "endpoint": "https://s3.example.com", "region": "eu-central-1",
		"caBundle": "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n", "serverSideEncryption": "aws:kms", "kmsKeyID": "alias/b",
		"credentialsSecret": "bucket",
	})
	expect.NoError(t, err)

	expect.Equal(t, "given destination", given, *byDefault.Or(&given, "shop"))
	expect.Equal(t, "default", backupv1.Destination{
		Type: "s3", Bucket: "backups", Prefix: "prod/eu/shop", Endpoint: "https://s3.example.com", Region: "eu-central-1",
		CABundle: "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n", ServerSideEncryption: "aws:kms", KMSKeyID: "alias/b",
		CredentialsSecret: "bucket",
	}, *byDefault.Or(nil, "shop"))
	none, err := datastore.ParseDestination(nil)
	expect.NoError(t, err)
	if found := none.Or(nil, "shop"); found != nil {
		t.Errorf("without a default, the destination is %+v", *found)
	}
}

func TestInvalidDefaultDestination(t *testing.T) {
	tests := map[string]struct {
		field, value, want string
	}{
		"no such field":           {"bucketName", "a", "bucketName: is not a field: use bucket, caBundle, credentialsSecret, endpoint, kmsKeyID, prefix, region, serverSideEncryption, type"},
		"no type":                 {"type", "", "type: must be s3, gcs or azure"},
		"other type":              {"type", "ftp", "type: must be s3, gcs or azure"},
		"bucket with a path":      {"bucket", "a/b", "bucket: must be the name of a bucket"},
		"prefix that ends with /": {"prefix", "a/", "prefix: must be a path such as team/orders"},
		"prefix with ..":          {"prefix", "a/../b", "prefix: must be a path such as team/orders"},
		"endpoint with a login":   {"endpoint", "https://user:word@s3.example.com", "endpoint: must be a URL such as https://s3.example.com"},
		"region with a blank":     {"region", "eu central", "region: must be a region such as eu-central-1"},
		"file of certificates":    {"caBundle", "/etc/ssl/ca.crt", "caBundle: must be certificates in PEM"},
		"encryption":              {"serverSideEncryption", "DES", "serverSideEncryption: must be AES256 or aws:kms"},
		"key without its kind":    {"kmsKeyID", "alias/b", "kmsKeyID: needs serverSideEncryption aws:kms: set it, or remove kmsKeyID"},
		"Secret in another place": {"credentialsSecret", "team/bucket", "credentialsSecret: must be the name of a Secret"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := datastore.ParseDestination(map[string]string{"type": "s3", "bucket": "backups", test.field: test.value})

			expectError(t, err, test.want)
		})
	}
	for want, fields := range map[string]map[string]string{
		"type: is missing: set s3, gcs or azure":                                                 {"bucket": "backups"},
		"bucket: is missing: set the name of a bucket":                                           {"type": "s3"},
		"region, serverSideEncryption and kmsKeyID need type s3: remove them, or set type to s3": {"type": "gcs", "bucket": "backups", "region": "eu"},
	} {
		_, err := datastore.ParseDestination(fields)
		expectError(t, err, want)
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

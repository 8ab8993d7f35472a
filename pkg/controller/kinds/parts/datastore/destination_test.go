// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"strings"
	"testing"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/test/crd"
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

// TestDefaultDestinationHasRulesOfBackup: the operator accepts a default destination if the API server admits
// the Backups that have it.
func TestDefaultDestinationHasRulesOfBackup(t *testing.T) {
	definition := crd.Load(t, "artifacts/kinds/backup/crd.yaml")
	long := func(length int) string { return strings.Repeat("a", length) }
	values := map[string][]string{
		"type":   {"s3", "gcs", "azure", "S3", "ftp", "s33", "s3\n"},
		"bucket": {"abc", "a.b_c-d", "ab", "-ab", "ab-", "a/b", "a b", "äbc", long(222), long(223)},
		"prefix": {
			"a", "a/b", "a.b", "a./b", "a/.b", "a.", "a-", "a_", "A/9", "-a", "/a", ".a", "a/", "a//b", "a..b", "a/../b", "a b", "a\n", "ä", long(448),
		},
		"endpoint": {
			"https://s3.example.com", "http://minio.storage:9000", "https://a/b~c/", "https://a:123456", "https://", "ftp://a", "https://user:word@a",
			"https://a?b", "https://a-", "https://" + long(300), "https://a/" + long(400), "https://" + long(504), "https://" + long(505), "https://a b",
		},
		"region":               {"eu-central-1", "a", "-a", "a b", "a_b", long(64), long(65)},
		"caBundle":             {"-----BEGIN CERTIFICATE-----\nMII=\n", "-----BEGIN CERTIFICATE-----", "MII=", " -----BEGIN CERTIFICATE-----"},
		"serverSideEncryption": {"AES256", "aws:kms", "aes256", "aws:kms2"},
		"kmsKeyID":             {"alias/b", "arn:aws:kms:eu:1:key/a-b_c", "/a", "a b", long(2048), long(2049)},
		"credentialsSecret":    {"a", "a.b-c", "A", "a.", "-a", "a/b", "a..b", long(253), long(254)},
	}
	for field, candidates := range values {
		for _, value := range candidates {
			fields := map[string]string{"type": "s3", "bucket": "backups"}
			if field == "kmsKeyID" {
				fields["serverSideEncryption"] = "aws:kms"
			}
			fields[field] = value
			_, err := datastore.ParseDestination(fields)

			destination := map[string]any{}
			for name, text := range fields {
				destination[name] = text
			}
			if field == "prefix" {
				destination["prefix"] = value + "/" + long(63) // The longest namespace.
			}
			object := definition.Object(t, "orders", `{source: {type: mysql, connection: {host: db, database: shop, credentialsSecret: login}}, schedule: "@daily"}`)
			object["spec"].(map[string]any)["destination"] = destination
			if errs := definition.Admit(t, object); (err == nil) != (len(errs) == 0) {
				t.Errorf("%s=%.40q: the operator says %v, the API server says %v", field, value, err, errs)
			}
		}
	}
}

func expectError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

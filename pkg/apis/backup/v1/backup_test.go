// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/kinds/backup/crd.yaml"

// spec returns a valid spec. Each argument replaces the value of a field, in the form field=value.
func spec(changes ...string) string {
	values := map[string]string{
		"type": "postgresql", "host": "db", "port": "5432", "database": "shop", "source": "login",
		"to": "s3", "bucket": "backups", "prefix": "team/db", "endpoint": `"https://s3.example.com:9000"`, "destination": "keys",
		"schedule": `"0 2 * * *"`, "more": "", "extra": "",
	}
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		values[name] = value
	}
	return fmt.Sprintf(`{source: {type: %s, connection: {host: %s, port: %s, database: %s, credentialsSecret: %s}},
		destination: {type: %s, bucket: %s, prefix: %s, endpoint: %s, credentialsSecret: %s %s}, schedule: %s %s}`,
		values["type"], values["host"], values["port"], values["database"], values["source"],
		values["to"], values["bucket"], values["prefix"], values["endpoint"], values["destination"], values["extra"], values["schedule"], values["more"])
}

func TestBackupDefaults(t *testing.T) {
	definition := crd.Load(t, file)
	object := definition.Object(t, "orders", `{source: {type: mysql, connection: {host: db, database: shop, credentialsSecret: login}},
		destination: {type: gcs, bucket: backups, credentialsSecret: keys}, schedule: "@daily"}`)

	errs := definition.Admit(t, object)

	if len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	want := map[string]any{
		"source": map[string]any{
			"type": "mysql", "connection": map[string]any{"host": "db", "database": "shop", "credentialsSecret": "login"},
		},
		"destination": map[string]any{"type": "gcs", "bucket": "backups", "credentialsSecret": "keys"},
		"schedule":    "@daily", "retention": "30d",
	}
	if diff := cmp.Diff(want, object["spec"]); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
}

func TestBackupAdmission(t *testing.T) {
	const label = "metadata.name must be a DNS-1035 label of at most 44 characters"
	tests := crd.Cases{
		{"all fields", "orders", spec(`more=, timeZone: Europe/Berlin, retention: 12h, suspend: true`), "", ""},
		{"all options of s3", "orders", spec(`extra=, region: eu-1, serverSideEncryption: "aws:kms", kmsKeyID: "arn:aws:kms:eu-1:1:key/a", takeOverFrom: a-1`), "", ""},
		{"a CA", "orders", spec(`extra=, caBundle: "-----BEGIN CERTIFICATE-----"`), "", ""},
		{"a CA that is none", "orders", spec(`extra=, caBundle: /etc/passwd`), "spec.destination.caBundle", "must be certificates in PEM"},
		{"a region of gcs", "orders", spec("to=gcs", "extra=, region: eu-1"), "spec.destination", "region, serverSideEncryption and kmsKeyID need type s3: remove them, or set type to s3"},
		{"a key without encryption", "orders", spec("extra=, kmsKeyID: a"), "spec.destination.kmsKeyID", ": needs serverSideEncryption aws:kms"},
		{"a key with AES256", "orders", spec("extra=, kmsKeyID: a, serverSideEncryption: AES256"), "spec.destination.kmsKeyID", ": needs serverSideEncryption aws:kms"},
		{"another encryption", "orders", spec("extra=, serverSideEncryption: rot13"), "spec.destination.serverSideEncryption", "Unsupported value"},
		{"an owner with a command", "orders", spec(`extra=, takeOverFrom: "$(reboot)"`), "spec.destination.takeOverFrom", "must be the UID of a Backup"},
		{"a run", "orders", spec(`more=, run: {timeout: 12h, podLabels: {a.io/b: c}, podAnnotations: {sidecar.istio.io/inject: "false"}}`), "", ""},
		{"a run without an end", "orders", spec("more=, run: {timeout: 0s}"), "spec.run.timeout", "must be a duration from 1m to 168h"},
		{"a label that is none", "orders", spec("more=, run: {podLabels: {a: b/c}}"), "spec.run.podLabels[a]", "must be the value of a label"},
		{"a volume", "orders", spec("more=, volume: {size: 2Ti, storageClassName: fast}"), "", ""},
		{"a volume without unit", "orders", spec(`more=, volume: {size: "2"}`), "spec.volume.size", "must be a size in Mi, Gi or Ti of at least 1Mi, such as 50Gi"},
		{"a volume of a class that is none", "orders", spec("more=, volume: {storageClassName: a/b}"), "spec.volume.storageClassName", "must be the name of a StorageClass"},
		{"a region with a space", "orders", spec(`extra=, region: "eu central"`), "spec.destination.region", "must be the name of a region, such as eu-central-1"},
		{"a key with a variable", "orders", spec(`extra=, serverSideEncryption: "aws:kms", kmsKeyID: "$(A)"`), "spec.destination.kmsKeyID", "must be the ID or the ARN of a key"},
		{
			"a bucket alone", "orders", `{source: {type: postgresql, connection: {host: db, database: shop, credentialsSecret: login}},
				destination: {type: s3, bucket: backups}, schedule: "@daily", serviceAccountName: backups.team}`, "", "",
		},
		{"an account elsewhere", "orders", spec(`more=, serviceAccountName: other/backups`), "spec.serviceAccountName", "must be the name of a ServiceAccount"},
		{"keys elsewhere", "orders", spec("destination=other/keys"), "spec.destination.credentialsSecret", "must be the name of a Secret"},
		{"an image", "orders", strings.Replace(spec(), "{type: postgresql,", "{type: postgresql, image: 'registry.example.com/postgres:17@sha256:"+strings.Repeat("0f", 32)+"',", 1), "", ""},
		{"an image with a space", "orders", strings.Replace(spec(), "{type: postgresql,", "{type: postgresql, image: 'a b',", 1), "spec.source.image", ": must be an image reference such as mariadb:11.4"},
		{"an IPv6 address", "orders", spec(`host="2001:db8::1"`), "", ""},
		{"the longest name", strings.Repeat("a", 44), spec(), "", ""},
		{"the longest retention", "orders", spec("more=, retention: 99999w"), "", ""},
		{"no spec", "orders", `null`, "spec", "Required value"},
		{"an empty spec", "orders", `{}`, "spec.source", "Required value"},
		{"another source", "orders", spec("type=oracle"), "spec.source.type", "Unsupported value"},
		{"another destination", "orders", spec("to=ftp"), "spec.destination.type", "Unsupported value"},
		{"no schedule", "orders", spec(`schedule=""`), "spec.schedule", "at least 1"},
		{"a schedule too long", "orders", spec("schedule=" + strings.Repeat("a", 129)), "spec.schedule", "128"},
		{"a retention without unit", "orders", spec(`more=, retention: "30"`), "spec.retention", "must be a number of hours, days or weeks, such as 12h, 30d or 8w"},
		{"a retention of nothing", "orders", spec("more=, retention: 0d"), "spec.retention", "must be a number of hours, days or weeks, such as 12h, 30d or 8w"},
		{"a retention in months", "orders", spec("more=, retention: 3m"), "spec.retention", "must be a number of hours, days or weeks, such as 12h, 30d or 8w"},
		{"a host with a command", "orders", spec(`host="db;reboot"`), "spec.source.connection.host", "must be a DNS name or an IP address"},
		{"a host as an option", "orders", spec(`host="--help"`), "spec.source.connection.host", "must be a DNS name or an IP address"},
		{"a database as an option", "orders", spec(`database="--all"`), "spec.source.connection.database", "must be the name of a database"},
		{"a database as a connection", "orders", spec(`database="host=evil"`), "spec.source.connection.database", "must be the name of a database"},
		{"a port too high", "orders", spec("port=65536"), "spec.source.connection.port", "less than or equal to 65535"},
		{"a Secret elsewhere", "orders", spec("source=other/login"), "spec.source.connection.credentialsSecret", "must be the name of a Secret"},
		{"a bucket with a path", "orders", spec("bucket=a/b"), "spec.destination.bucket", "must be the name of a bucket, without a path"},
		{"a prefix above", "orders", spec("prefix=a/../b"), "spec.destination.prefix", "must not contain '..' or '//'"},
		{"a prefix with an empty part", "orders", spec("prefix=a//b"), "spec.destination.prefix", "must not contain '..' or '//'"},
		{"a prefix that ends with a slash", "orders", spec("prefix=a/"), "spec.destination.prefix", "must be a path such as team/orders"},
		{"a prefix with a variable", "orders", spec(`prefix="$(HOME)"`), "spec.destination.prefix", "must be a path such as team/orders"},
		{"an endpoint without scheme", "orders", spec("endpoint=s3.example.com"), "spec.destination.endpoint", "must be a URL without a login"},
		{"an endpoint with a login", "orders", spec(`endpoint="https://a:b@s3.example.com"`), "spec.destination.endpoint", "must be a URL without a login"},
		{"a name too long", strings.Repeat("a", 45), spec(), "metadata", label},
		{"a name with a dot", "orders.shop", spec(), "metadata", label},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestBackupColumns(t *testing.T) {
	definition := crd.Load(t, file)
	object := definition.Object(t, "orders", spec("more=, suspend: false"))
	object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}

	row := definition.Row(t, object)

	delete(row, "Age")
	want := map[string]any{"Name": "orders", "Schedule": "0 2 * * *", "Suspended": false, "Ready": "True"}
	for name, value := range want {
		if row[name] != value {
			t.Errorf("column %s is %v, want %v (row %v)", name, row[name], value, row)
		}
	}
}

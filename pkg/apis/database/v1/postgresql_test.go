// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/kinds/postgresql/crd.yaml"

func TestPostgreSQLDefaults(t *testing.T) {
	definition := crd.Load(t, file)
	object := definition.Object(t, "db", `{version: "17", backup: {}}`)

	errs := definition.Admit(t, object)

	want := map[string]any{
		"version": "17", "storage": "10Gi", "replicas": int64(1), "deletionPolicy": "Retain",
		"backup": map[string]any{"schedule": "0 2 * * *", "retention": "30d"},
	}
	if diff := cmp.Diff(want, object["spec"]); diff != "" || len(errs) > 0 {
		t.Errorf("errors %v, spec (-want +got):\n%s", errs, diff)
	}
}

func TestPostgreSQLValidation(t *testing.T) {
	destination := `destination: {type: s3, bucket: dumps, credentialsSecret: bucket}`
	tests := crd.Cases{
		{"the least", "db", `{version: "12"}`, "", ""},
		{"the most", strings.Repeat("a", 37), `{version: "18", replicas: 5, storage: 9999Gi, deletionPolicy: Delete, storageClassName: fast.example.com, backup: {enabled: true, ` + destination + `}}`, "", ""},
		{"no version", "db", `{}`, "spec.version", "Required value"},
		{"a version too old", "db", `{version: "11"}`, "spec.version", "Unsupported value"},
		{"a minor version", "db", `{version: "17.2"}`, "spec.version", "Unsupported value"},
		{"a version that is a number", "db", `{version: 17}`, "spec.version", "must be of type string"},
		{"no storage", "db", `{version: "17", storage: 0Gi}`, "spec.storage", "at least 1Gi"},
		{"storage in another unit", "db", `{version: "17", storage: 10G}`, "spec.storage", "must be a size in Gi of at least 1Gi, such as 10Gi"},
		{"no servers", "db", `{version: "17", replicas: 0}`, "spec.replicas", "greater than or equal to 1"},
		{"too many servers", "db", `{version: "17", replicas: 6}`, "spec.replicas", "less than or equal to 5"},
		{"another deletion policy", "db", `{version: "17", deletionPolicy: Keep}`, "spec.deletionPolicy", "Unsupported value"},
		{"a backup as in tutorials", "db", `{version: "15", storage: 10Gi, replicas: 3, backup: {enabled: true, schedule: "0 2 * * *", retention: 30d}}`, "", ""},
		{"a required backup of an account", "db", `{version: "17", backup: {enabled: true, required: true, serviceAccountName: backups}}`, "", ""},
		{"an account elsewhere", "db", `{version: "17", backup: {serviceAccountName: other/backups}}`, "spec.backup.serviceAccountName", "must be the name of a ServiceAccount"},
		{"parameters", "db", `{version: "17", parameters: {max_connections: "300", shared_buffers: 512MB, random_page_cost: "1.1", statement_timeout: 30s,
			log_statement: ddl, jit: "off", shared_preload_libraries: "pg_stat_statements,auto_explain", pg_stat_statements.max: "10000"}}`, "", ""},
		{"a parameter that runs a program", "db", `{version: "17", parameters: {archive_command: "cp %p /tmp"}}`, "spec.parameters", "archive_command cannot be set: remove it"},
		{"a parameter in upper case", "db", `{version: "17", parameters: {WORK_MEM: 8MB}}`, "spec.parameters", "WORK_MEM cannot be set"},
		{"a second line in a value", "db", `{version: "17", parameters: {log_statement: "all\narchive_command = 'id'"}}`, "spec.parameters", "must be none, ddl, mod or all"},
		{"a quote in a value", "db", `{version: "17", parameters: {work_mem: "8MB' "}}`, "spec.parameters", "such as 512MB"},
		{"a size without a unit", "db", `{version: "17", parameters: {shared_buffers: "512"}}`, "spec.parameters", "such as 512MB"},
		{"buffers below the memory limit", "db", `{version: "17", resources: {limits: {memory: 2Gi}}, parameters: {shared_buffers: 2047MB}}`, "", ""},
		{"buffers of the memory limit", "db", `{version: "17", resources: {limits: {memory: 2Gi}}, parameters: {shared_buffers: 2GB}}`, "spec.parameters", ": shared_buffers must be less than the memory limit in spec.resources.limits: lower it, or raise the limit"},
		{"buffers above a limit in bytes", "db", `{version: "17", resources: {limits: {memory: 536870912}}, parameters: {shared_buffers: 513MB}}`, "spec.parameters", "shared_buffers must be less"},
		{"buffers without a memory limit", "db", `{version: "17", resources: {limits: {cpu: 1}}, parameters: {shared_buffers: 64GB}}`, "", ""},
		{"a library that is not allowed", "db", `{version: "17", parameters: {shared_preload_libraries: plpython3u}}`, "spec.parameters", "must be a list of"},
		{"too few connections", "db", `{version: "17", parameters: {max_connections: "5"}}`, "spec.parameters", "from 20 to 9999"},
		{"a value that is too long", "db", `{version: "17", parameters: {work_mem: "` + strings.Repeat("1", 129) + `"}}`, "spec.parameters.work_mem", "128"},
		{"TLS", "db", `{version: "17", tls: {}}`, "", ""},
		{"TLS with a Secret of the user", "db", `{version: "17", tls: {secretName: db-cert, required: true}}`, "", ""},
		{"a name that no Secret has", "db", `{version: "17", tls: {secretName: "../x"}}`, "spec.tls.secretName", "must be the name of a Secret"},
		{"an empty schedule", "db", `{version: "17", backup: {schedule: ""}}`, "spec.backup.schedule", "at least 1"},
		{"a retention without a unit", "db", `{version: "17", backup: {retention: "30"}}`, "spec.backup.retention", "must be a number of hours, days or weeks"},
		{"a name too long", strings.Repeat("a", 38), `{version: "17"}`, "metadata", "at most 37 characters"},
		{"a name with a dot", "db.example", `{version: "17"}`, "metadata", "DNS-1035 label"},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestPostgreSQLColumns(t *testing.T) {
	crd.Load(t, file).TestColumns(t, "db", `{version: "17", storage: 20Gi}`, map[string]any{
		"readyReplicas": int64(2), "phase": "Degraded",
		"conditions": []any{map[string]any{"type": "BackupConfigured", "status": "False", "reason": "BackupNotReady"}},
	}, map[string]any{"Name": "db", "Version": "17", "Ready": int64(2), "Storage": "20Gi", "Phase": "Degraded", "Backups": "BackupNotReady"})
}

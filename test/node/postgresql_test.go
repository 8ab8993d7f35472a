// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"fmt"
	"strings"
	"testing"
)

// database is the manifest of a PostgreSQL with this number of servers, for a machine with other work.
func database(name string, replicas int) string {
	return fmt.Sprintf(`
apiVersion: database.example.com/v1
kind: PostgreSQL
metadata: {name: %s}
spec:
  version: "17"
  storage: 1Gi
  replicas: %d
  resources: {requests: {cpu: 10m, memory: 64Mi}, limits: {memory: 256Mi}}
`, name, replicas)
}

// startDatabaseClient starts the pod psql, which has the programs of PostgreSQL and the login of the PostgreSQL shop-db, and waits
// until it runs. It also has bash and a volume at /work.
func startDatabaseClient(t *testing.T, namespace string) {
	t.Helper()
	apply(t, namespace, `
apiVersion: v1
kind: Pod
metadata: {name: psql}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 999, fsGroup: 999, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: client
    image: postgres:17
    command: [sleep, "86400"]
    env:
    - {name: PGHOST, value: shop-db}
    - {name: PGCONNECT_TIMEOUT, value: "5"}
    - {name: PGUSER, valueFrom: {secretKeyRef: {name: shop-db-credentials, key: username}}}
    - {name: PGDATABASE, valueFrom: {secretKeyRef: {name: shop-db-credentials, key: database}}}
    - {name: PGPASSWORD, valueFrom: {secretKeyRef: {name: shop-db-credentials, key: password}}}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: work, mountPath: /work}]
  volumes: [{name: work, emptyDir: {}}]
`)
	awaitReady(t, namespace, "pod/psql")
}

// query runs SQL as a client of the Service, with the login of the Secret, and returns the rows.
func query(t *testing.T, namespace, sql string) (string, error) {
	t.Helper()
	rows, err := execute(t, namespace, "psql", "psql", "--no-psqlrc", "--no-password", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1",
		"--command="+sql)
	return strings.TrimSpace(rows), err
}

// TestQueryPostgreSQL: a client reaches the database through its Service, with the login of its Secret.
func TestQueryPostgreSQL(t *testing.T) {
	namespace := restricted(t, "postgresql")
	apply(t, namespace, database("shop-db", 1))
	awaitReady(t, namespace, "postgresql/shop-db")
	startDatabaseClient(t, namespace)

	rows, err := query(t, namespace, "CREATE TABLE orders (id int); INSERT INTO orders VALUES (1), (2); SELECT count(*), current_user FROM orders")
	if err != nil {
		t.Fatal(err)
	}
	if rows != "2|app" {
		t.Errorf("the rows are %q, want 2|app", rows)
	}
}

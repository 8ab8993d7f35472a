// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
)

// destination is where Backups of a namespace with a storage server store dumps.
const destination = "{type: s3, bucket: backups, endpoint: 'http://storage:9000', credentialsSecret: bucket}"

// startStorage starts an S3 server in a namespace, which has the bucket "backups".
func startStorage(t *testing.T, namespace string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "storage")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./storage")
	build.Dir, build.Env = filepath.Join(shared.Root(), "test", "scripts"), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the storage server: %v\n%s", err, out)
	}
	apply(t, namespace, `
apiVersion: v1
kind: Secret
metadata: {name: bucket}
stringData: {AWS_ACCESS_KEY_ID: key, AWS_SECRET_ACCESS_KEY: secret}
---
apiVersion: v1
kind: Service
metadata: {name: storage}
spec:
  selector: {app: storage}
  ports: [{port: 9000}]
---
apiVersion: v1
kind: Pod
metadata: {name: storage, labels: {app: storage}}
spec:
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: storage
    image: busybox:1.37
    # The program comes with kubectl exec.
    command: [sh, -c, 'until [ -e /work/storage ]; do sleep 1; done; exec /work/storage']
    readinessProbe: {tcpSocket: {port: 9000}, periodSeconds: 1}
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    volumeMounts: [{name: work, mountPath: /work}]
  volumes: [{name: work, emptyDir: {}}]
`)
	await(t, namespace, "pod/storage", "jsonpath={.status.phase}=Running")
	program, err := os.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	cmd := exec.CommandContext(t.Context(), shared.Kubectl(), "--kubeconfig="+shared.Kubeconfig(), "exec", "--stdin", "--namespace="+namespace, "storage",
		"--", "sh", "-c", "cat >/work/part && chmod +x /work/part && mv /work/part /work/storage")
	cmd.Stdin = program
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("copy the storage server: %v: %s", err, out)
	}
	awaitReady(t, namespace, "pod/storage")
}

// runBackup requests a run of a Backup, and waits until the run has stored a dump.
func runBackup(t *testing.T, namespace, name string) {
	t.Helper()
	request := fmt.Sprint(time.Now().UnixNano())
	if _, err := kubectl(t.Context(), "annotate", "--namespace="+namespace, "backup/"+name, "backup.example.com/run-now="+request); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "run of "+name, func(ctx context.Context) (bool, error) {
		out, err := kubectl(ctx, "get", "--namespace="+namespace, "backup/"+name,
			`--output=jsonpath={.status.lastHandledRunNow} {.status.lastSuccessfulTime} {.status.conditions[?(@.type=="LastRunSucceeded")]}`)
		if err != nil {
			return false, err
		}
		fields := strings.Fields(out)
		return len(fields) > 2 && fields[0] == request && strings.Contains(out, `"status":"True"`), fmt.Errorf("%s", out)
	})
}

// restore loads the newest dump of a Backup into a database, which exists and is empty, with the plugin of kubectl.
func restore(t *testing.T, namespace, backup, database string) {
	t.Helper()
	if out, code := demoapp(t, namespace, "restore", backup, "--database="+database); code != 0 {
		t.Fatalf("restore: exit code %d\n%s", code, out)
	}
}

// TestDumpAndRestoreMySQL: the rows of a platform's MySQL return from an S3 server, into a new database.
func TestDumpAndRestoreMySQL(t *testing.T) {
	withFaults(t)
	namespace := restricted(t, "mysql")
	startStorage(t, namespace)
	apply(t, namespace, `
apiVersion: platform.example.com/v1
kind: EcommercePlatform
metadata: {name: shop}
spec:
  environment: development
  frontend: {image: "nginxinc/nginx-unprivileged:1.27-alpine"}
  backend: {image: "nginxinc/nginx-unprivileged:1.27-alpine"}
  database:
    type: mysql
    storage: 1Gi
    backup: {enabled: true, destination: `+destination+`}
  cache: {enabled: false}
  monitoring: {enabled: false}
`)
	awaitReady(t, namespace, "shop/shop")
	root := func(sql string) string {
		t.Helper()
		out, err := execute(t, namespace, "shop-db-0", "sh", "-c",
			`MYSQL_PWD=$MYSQL_ROOT_PASSWORD exec mariadb --socket=/var/run/mysqld/mysqld.sock --user=root --batch --skip-column-names --execute="$0"`, sql)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	const rows = "SELECT id, name, HEX(data) FROM %s.orders ORDER BY id"
	root(`CREATE TABLE app.orders (id int PRIMARY KEY, name text, data blob);
		INSERT INTO app.orders VALUES (1, 'Zoë''s "first"', x'00ff'), (2, NULL, NULL);
		CREATE DATABASE restored; GRANT ALL ON restored.* TO app`)

	runBackup(t, namespace, "shop-db-backup")
	restore(t, namespace, "shop-db-backup", "restored")

	before, after := root(fmt.Sprintf(rows, "app")), root(fmt.Sprintf(rows, "restored"))
	if before != after || !strings.Contains(before, "00FF") {
		t.Errorf("the restored rows are %q, want %q", after, before)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/test/cluster"
)

// streamingLimit is how long standbys may take to stream again after a restarted primary is ready.
const streamingLimit = 20 * time.Second

// TestPostgreSQLFaults breaks a primary and its two standbys. The steps build on each other, and each leaves the database Ready.
func TestPostgreSQLFaults(t *testing.T) {
	withFaults(t)
	d := &servers{namespace: restricted(t, "faults")}
	startStorage(t, d.namespace)
	apply(t, d.namespace, database("shop-db", 3)+"  backup: {enabled: true, destination: "+destination+"}\n")
	awaitReady(t, d.namespace, "postgresql/shop-db")
	startDatabaseClient(t, d.namespace)
	d.do(t, "CREATE TABLE rows (id bigint PRIMARY KEY)")

	for _, step := range []struct {
		name string
		play func(*testing.T, *servers)
	}{
		{"no acknowledged row is lost when the primary is deleted ten times", deletePrimaryTenTimes},
		{"a new password needs no restart", rotatePassword},
		{"a standby that lost its volume clones the primary", loseVolumeOfStandby},
		{"a standby becomes the primary that lost its volume", failOver},
		{"the rows return from a dump", dumpAndRestore},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.play(t, d) }) {
			break
		}
	}
}

// servers are the PostgreSQL shop-db, and a client.
type servers struct{ namespace string }

// do runs SQL as a client of the Service. It waits for the rules of the node, which follow the readiness of the primary.
func (d *servers) do(t *testing.T, sql string) (rows string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "the Service connects", func(context.Context) (bool, error) {
		var err error
		rows, err = query(t, d.namespace, sql)
		if err != nil && !strings.Contains(err.Error(), "Connection refused") {
			t.Fatal(err)
		}
		return err == nil, err
	})
	return rows
}

// superuser runs SQL in a pod.
func (d *servers) superuser(t *testing.T, pod, sql string) (string, error) {
	t.Helper()
	rows, err := execute(t, d.namespace, pod, "psql", "--host=/var/run/postgresql", "--username=postgres", "--no-psqlrc", "--tuples-only", "--no-align",
		"--command="+sql)
	return strings.TrimSpace(rows), err
}

// awaitStandbys waits until both standbys stream from the primary.
func (d *servers) awaitStandbys(t *testing.T) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "both standbys stream", func(context.Context) (bool, error) {
		names, err := d.superuser(t, "shop-db-0", "SELECT string_agg(application_name, ' ' ORDER BY application_name) FROM pg_stat_replication WHERE state = 'streaming'")
		if err == nil && names != "shop-db-1 shop-db-2" {
			err = fmt.Errorf("these stream: %q", names)
		}
		return err == nil, err
	})
}

// deletePod deletes a pod, and waits until its successor is Ready.
func (d *servers) deletePod(t *testing.T, pod string, flags ...string) {
	t.Helper()
	if _, err := kubectl(t.Context(), append([]string{"delete", "--namespace=" + d.namespace, "pod/" + pod}, flags...)...); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "successor of "+pod, func(ctx context.Context) (bool, error) {
		_, err := kubectl(ctx, "wait", "--namespace="+d.namespace, "pod/"+pod, "--for=condition=Ready", "--timeout=2m")
		return err == nil, err
	})
}

// writer writes rows with rising numbers, each in a transaction of its own, and appends the number of each acknowledged row to
// /work/acknowledged. A failed transaction ends psql, and the next psql goes on with other numbers. It ends when /work/stop exists.
const writer = `
rm -f /work/stop /work/acknowledged
id=0
while [ ! -e /work/stop ]; do
  id=$((id + 1000000))
  next=$id
  while [ ! -e /work/stop ]; do
    next=$((next + 1))
    printf 'INSERT INTO rows VALUES (%s);\n\\echo %s\n' "$next" "$next" || break
    sleep 0.01
  done | psql --no-psqlrc --quiet --set=ON_ERROR_STOP=1 "tcp_user_timeout=5000" >>/work/acknowledged 2>>/work/errors || true
  sleep 0.1
done`

// deletePrimaryTenTimes alternates pods that shut down and servers that are killed.
func deletePrimaryTenTimes(t *testing.T, d *servers) {
	stopped := make(chan error, 1)
	go func() {
		_, err := execute(t, d.namespace, "psql", "bash", "-c", writer)
		stopped <- err
	}()
	for i := range 10 {
		before := d.acknowledged(t)
		cluster.Eventually(t.Context(), t, "rows are written", func(context.Context) (bool, error) {
			now := d.acknowledged(t)
			return now >= before+300, fmt.Errorf("%d rows", now-before)
		})
		grace := "--grace-period=120"
		if i%2 == 1 {
			grace = "--grace-period=1"
		}
		d.deletePod(t, "shop-db-0", grace)
		begin := time.Now()
		d.awaitStandbys(t)
		took := time.Since(begin).Round(time.Second)
		t.Logf("deletion %d: the standbys stream %s after the primary is ready", i+1, took)
		if took > streamingLimit {
			t.Errorf("deletion %d: the standbys stream after %s, want at most %s", i+1, took, streamingLimit)
		}
	}
	if _, err := execute(t, d.namespace, "psql", "touch", "/work/stop"); err != nil {
		t.Fatal(err)
	}
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	d.do(t, "SELECT 1")
	out, err := execute(t, d.namespace, "psql", "psql", "--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1",
		"--command=CREATE TEMPORARY TABLE acknowledged (id bigint)", `--command=\copy acknowledged FROM /work/acknowledged`,
		"--command=SELECT count(*), count(*) FILTER (WHERE NOT EXISTS (SELECT FROM rows WHERE rows.id = acknowledged.id)) FROM acknowledged")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("acknowledged rows, and those of them that are lost: %s", strings.TrimSpace(out))
	if !strings.HasSuffix(strings.TrimSpace(out), "|0") {
		t.Error("acknowledged rows are lost")
	}
	d.awaitSameRows(t)
}

// acknowledged returns how many rows the writer has written.
func (d *servers) acknowledged(t *testing.T) int {
	t.Helper()
	out, err := execute(t, d.namespace, "psql", "sh", "-c", "cat /work/acknowledged 2>/dev/null | wc -l")
	if err != nil {
		t.Fatal(err)
	}
	var lines int
	if _, err := fmt.Sscan(out, &lines); err != nil {
		t.Fatal(err)
	}
	return lines
}

// awaitSameRows waits until the standbys have the rows of the primary.
func (d *servers) awaitSameRows(t *testing.T) {
	t.Helper()
	want := d.do(t, "SELECT count(*), sum(id) FROM rows")
	for _, pod := range []string{"shop-db-1", "shop-db-2"} {
		cluster.Eventually(t.Context(), t, "rows of "+pod, func(context.Context) (bool, error) {
			got, err := execute(t, d.namespace, pod, "psql", "--host=/var/run/postgresql", "--username=postgres", "--dbname=app", "--no-psqlrc", "--tuples-only",
				"--no-align", "--command=SELECT count(*), sum(id) FROM rows")
			if err == nil && strings.TrimSpace(got) != want {
				err = fmt.Errorf("got %s, want %s", got, want)
			}
			return err == nil, err
		})
	}
}

func rotatePassword(t *testing.T, d *servers) {
	pods := d.pods(t)
	patch := fmt.Sprintf(`{"data": {"password": %q, "replication-password": %q}}`,
		base64.StdEncoding.EncodeToString([]byte(`new pass:word\ '"`)), base64.StdEncoding.EncodeToString([]byte("new replication password")))
	if _, err := kubectl(t.Context(), "patch", "--namespace="+d.namespace, "secret/shop-db-credentials", "--patch="+patch); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t.Context(), t, "the old password is refused", func(context.Context) (bool, error) {
		out, err := query(t, d.namespace, "SELECT 1")
		return err != nil && strings.Contains(err.Error(), "password authentication failed"), fmt.Errorf("%s, %w", out, err)
	})
	if after := d.pods(t); after != pods {
		t.Errorf("pods are %s, want %s", after, pods)
	}
	// The client reads the Secret when it starts. The new connections of standbys use the new password.
	if _, err := kubectl(t.Context(), "delete", "--namespace="+d.namespace, "pod/psql"); err != nil {
		t.Fatal(err)
	}
	startDatabaseClient(t, d.namespace)
	d.do(t, "INSERT INTO rows VALUES (-1)")
	d.deletePod(t, "shop-db-1")
	d.awaitStandbys(t)
	d.awaitSameRows(t)
}

// pods returns the UIDs and restarts of the servers.
func (d *servers) pods(t *testing.T) string {
	t.Helper()
	out, err := kubectl(t.Context(), "get", "pods", "--namespace="+d.namespace, "--selector=database.example.com/postgresql=shop-db",
		"--output=jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[0].restartCount}{'\\n'}{end}")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func loseVolumeOfStandby(t *testing.T, d *servers) {
	d.loseVolume(t, "shop-db-2")
	d.awaitStandbys(t)
	d.awaitSameRows(t)
}

// loseVolume deletes the claim of a server, and its pod. The next pod has a new volume.
func (d *servers) loseVolume(t *testing.T, pod string) {
	t.Helper()
	if _, err := kubectl(t.Context(), "delete", "--namespace="+d.namespace, "--wait=false", "pvc/data-"+pod); err != nil {
		t.Fatal(err)
	}
	if _, err := kubectl(t.Context(), "delete", "--namespace="+d.namespace, "pod/"+pod); err != nil {
		t.Fatal(err)
	}
}

// failOver follows docs/postgresql.md after a lost volume of the primary.
func failOver(t *testing.T, d *servers) {
	want := d.do(t, "SELECT count(*), sum(id) FROM rows")
	d.loseVolume(t, "shop-db-0")
	cluster.Eventually(t.Context(), t, "the primary names the command", func(ctx context.Context) (bool, error) {
		log, err := kubectl(ctx, "logs", "--namespace="+d.namespace, "shop-db-0")
		return strings.Contains(log, "kubectl exec shop-db-0 -- sh /scripts/failover.sh"), fmt.Errorf("%s, %w", log, err)
	})
	if _, err := execute(t, d.namespace, "shop-db-0", "sh", "/scripts/failover.sh", "1"); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, d.namespace, "postgresql/shop-db")
	await(t, d.namespace, "pod/shop-db-0", "condition=Ready")
	if got := d.do(t, "SELECT count(*), sum(id) FROM rows"); got != want {
		t.Errorf("the rows are %s, want %s", got, want)
	}
	d.do(t, "INSERT INTO rows VALUES (-2)")
	d.awaitStandbys(t)
	d.awaitSameRows(t)
}

func dumpAndRestore(t *testing.T, d *servers) {
	runBackup(t, d.namespace, "shop-db-backup")
	if _, err := d.superuser(t, "shop-db-0", "CREATE DATABASE app_restored OWNER app"); err != nil {
		t.Fatal(err)
	}
	restore(t, d.namespace, "shop-db-backup", "app_restored")
	const rows = `SELECT count(*), md5(string_agg(id::text, ',' ORDER BY id)) FROM rows`
	want := d.do(t, rows)
	got, err := execute(t, d.namespace, "psql", "psql", "--no-psqlrc", "--tuples-only", "--no-align", "--dbname=app_restored", "--command="+rows)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(got) != want {
		t.Errorf("the restored rows are %s, want %s", got, want)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package postgresql

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// startThree starts a primary and two standbys, and makes a table with one row.
func startThree(t *testing.T) (primary, first, second *server) {
	t.Helper()
	d := newDatabase(t)
	first, second, primary = d.start(1), d.start(2), d.start(0) // Pods start in any order.
	for _, s := range []*server{primary, first, second} {
		s.awaitReady()
	}
	primary.do("CREATE TABLE rows (id bigserial PRIMARY KEY, filler text)")
	primary.do("INSERT INTO rows DEFAULT VALUES")
	return primary, first, second
}

func TestRowsArriveAtStandbys(t *testing.T) {
	t.Parallel()
	primary, first, second := startThree(t)

	primary.do("INSERT INTO rows SELECT FROM generate_series(1, 999)")

	first.awaitRows("1000")
	second.awaitRows("1000")
	if output, err := first.query("app", password, "app", "INSERT INTO rows DEFAULT VALUES"); err == nil ||
		!strings.Contains(output, "read-only transaction") {
		t.Errorf("a write on a standby returns %q, %v", output, err)
	}
	if sent := primary.superuser("SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming'"); sent != "2" {
		t.Errorf("%s standbys stream, want 2", sent)
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	primary, standby, _ := startThree(t)
	tests := []struct {
		name                     string
		server                   *server
		role, password, database string
		refusal                  string
	}{
		{"the owner", primary, "app", password, "app", ""},
		{"the owner on a standby", standby, "app", password, "app", ""},
		{"a wrong password", primary, "app", "wrong", "app", "password authentication failed"},
		{"no password", primary, "app", "", "app", "no password supplied"},
		{"a wrong password on a standby", standby, "app", "wrong", "app", "password authentication failed"},
		{"the superuser", primary, "postgres", password, "app", "pg_hba.conf rejects connection"},
		{"the role of standbys", primary, "replication", replicationPassword, "app", "pg_hba.conf rejects connection"},
		{"the role of standbys for monitoring", primary, "replication", replicationPassword, "postgres", ""},
	}
	for _, test := range tests {
		output, err := test.server.query(test.role, test.password, test.database, "SELECT 1")

		if (err == nil) != (test.refusal == "") || !strings.Contains(output, test.refusal) {
			t.Errorf("%s: got %q, %v, want a refusal with %q", test.name, output, err, test.refusal)
		}
	}
	if super := primary.superuser("SELECT rolsuper OR rolcreaterole OR rolreplication FROM pg_roles WHERE rolname = 'app'"); super != "f" {
		t.Error("the owner of the database is more than an owner")
	}
	if scheme := primary.superuser("SELECT count(*) FROM pg_authid WHERE rolpassword LIKE 'SCRAM-SHA-256$%'"); scheme != "2" {
		t.Errorf("%s roles have SCRAM passwords, want 2", scheme)
	}
}

// TestPasswordsStayInTheirFiles looks for passwords in logs and command lines, also if the server
// logs all statements.
func TestPasswordsStayInTheirFiles(t *testing.T) {
	t.Parallel()
	primary, standby, _ := startThree(t)
	primary.superuser("ALTER SYSTEM SET log_statement = 'all'")
	primary.superuser("SELECT pg_reload_conf()")

	primary.setCredential("password", "another-password")
	primary.awaitReady()

	if output, err := primary.query("app", "another-password", "app", "SELECT 1"); err != nil {
		t.Errorf("the new password is refused: %s", output)
	}
	for name, text := range map[string]string{
		"log of the primary": primary.output.String(), "log of the standby": standby.output.String(), "command lines": primary.arguments(),
	} {
		for _, secret := range []string{password, replicationPassword, "another-password"} {
			if strings.Contains(text, secret) {
				t.Errorf("the %s has the password %q", name, secret)
			}
		}
	}
}

// TestNewPasswordsNeedNoRestart changes both passwords while the servers run.
func TestNewPasswordsNeedNoRestart(t *testing.T) {
	t.Parallel()
	primary, first, second := startThree(t)

	primary.setCredential("password", "new password")
	primary.setCredential("replication-password", "new replication password")
	for _, s := range []*server{primary, first, second} {
		s.awaitReady()
	}

	if output, err := primary.query("app", password, "app", "SELECT 1"); err == nil {
		t.Errorf("the old password is accepted: %s", output)
	}
	if output, err := primary.query("app", "new password", "app", "INSERT INTO rows DEFAULT VALUES"); err != nil {
		t.Errorf("the new password is refused: %s", output)
	}
	first.kill()
	again := first.start(1) // Its connection uses the new password.
	again.awaitReady()
	cluster.Eventually(t.Context(), t, "rows arrive", func(context.Context) (bool, error) {
		output, err := again.query("app", "new password", "app", "SELECT count(*) FROM rows") //nolint:contextcheck // It has the test's context.
		return output == "2", err
	})
}

// TestSecretWithoutReplicationPassword: a Secret that a user brought need not have one.
func TestSecretWithoutReplicationPassword(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	expect.NoError(t, errors.Join(os.Remove(filepath.Join(d.credentials, "replication-password")), os.Remove(filepath.Join(d.credentials, "username"))))

	primary, standby := d.start(0), d.start(1)

	primary.awaitReady()
	standby.awaitReady()
	primary.do("CREATE TABLE rows ()")
	standby.awaitRows("0")
}

// TestStandbyThatLostItsVolume also leaves an incomplete clone behind, which must not be started.
func TestStandbyThatLostItsVolume(t *testing.T) {
	t.Parallel()
	primary, first, _ := startThree(t)
	first.kill()
	first.loseVolume()
	incomplete := filepath.Join(first.volume(), "data.new")
	expect.NoError(t, errors.Join(os.MkdirAll(incomplete, 0o755), os.WriteFile(filepath.Join(incomplete, "PG_VERSION"), []byte(major+"\n"), 0o600),
		first.handOver(first.volume())))
	primary.do("INSERT INTO rows DEFAULT VALUES")

	again := first.start(1)
	again.awaitReady()

	again.awaitRows("2")
	if _, err := os.Stat(incomplete); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the incomplete clone is still there: %v", err)
	}
}

func TestStandbyThatIsAwayFollowsAgain(t *testing.T) {
	t.Parallel()
	primary, first, _ := startThree(t)
	first.stop()
	primary.do("INSERT INTO rows DEFAULT VALUES")

	again := first.start(1)
	again.awaitReady()

	again.awaitRows("2")
	if strings.Contains(again.output.String(), "cloning") {
		t.Error("the standby was cloned")
	}
}

// TestStandbyWithoutItsWALIsClonedAgain removes the WAL that a standby needs while the standby is
// away.
func TestStandbyWithoutItsWALIsClonedAgain(t *testing.T) {
	t.Parallel()
	primary, first, second := startThree(t)
	first.kill()
	primary.superuser("ALTER SYSTEM SET min_wal_size = '32MB'")
	for range 12 { // More than is kept.
		primary.do("INSERT INTO rows (filler) SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
		primary.superuser("SELECT pg_switch_wal()")
		primary.superuser("CHECKPOINT")
	}
	again := first.start(1)

	awaitStop(t, again)
	cloned := first.start(1) // As the kubelet does.
	cloned.awaitReady()

	cloned.awaitRows("60001")
	second.awaitReady()
	if output, err := second.exec("live.sh"); err != nil {
		t.Errorf("a standby that follows is not alive: %s", output)
	}
}

// awaitStop runs the liveness probe until it stops the server.
func awaitStop(t *testing.T, s *server) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "the liveness probe stops the standby", func(context.Context) (bool, error) {
		output, err := s.exec("live.sh")
		return err != nil && strings.Contains(output, "cloned again"), errors.New(output + s.output.String())
	})
	if code := s.awaitExit(); code != 0 {
		t.Errorf("the server ended with exit code %d", code)
	}
}

func TestPrimaryRestarts(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*server){"stopped": (*server).stop, "killed": (*server).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, first, _ := startThree(t)

			end(primary)
			if output, err := first.exec("ready.sh"); err != nil {
				t.Errorf("a standby is not ready while the primary is away: %s", output)
			}
			if output, err := first.exec("live.sh"); err != nil {
				t.Errorf("a standby is not alive while the primary is away: %s", output)
			}
			again := primary.start(0)
			again.awaitReady()
			again.do("INSERT INTO rows DEFAULT VALUES")

			first.awaitReady()
			first.awaitRows("2")
		})
	}
}

// TestDataWritableByGroup starts a server on a volume whose permissions the kubelet has changed for
// fsGroup.
func TestDataWritableByGroup(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	primary := d.start(0)
	primary.awaitReady()
	primary.stop()
	expect.NoError(t, os.Chmod(filepath.Join(primary.volume(), "data"), os.ModeSetgid|0o770))

	again := primary.start(0)

	again.awaitReady()
	again.mustRun()
}

// TestVolumeOfDeletedDatabase starts servers on the volumes of a deleted PostgreSQL.
func TestVolumesOfDeletedDatabase(t *testing.T) {
	t.Parallel()
	primary, first, second := startThree(t)
	for _, s := range []*server{primary, first, second} {
		s.stop()
		expect.NoError(t, os.RemoveAll(s.run()))
	}

	again := primary.start(0)
	again.awaitReady()

	again.awaitRows("1")
}

func TestOtherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	primary := d.start(0)
	primary.awaitReady()
	primary.stop()
	expect.NoError(t, os.WriteFile(filepath.Join(primary.volume(), "data", "PG_VERSION"), []byte("14\n"), 0o600))

	again := d.start(0)

	if code := again.awaitExit(); code != 1 {
		t.Errorf("exit code is %d, want 1", code)
	}
	want := "the data directory was made by PostgreSQL 14, and this is PostgreSQL 15: set spec.version to 14, or dump the database and restore it"
	if !strings.Contains(again.output.String(), want) {
		t.Errorf("output is %q, want %q", again.output, want)
	}
}

// TestFailover restores a primary that lost its volume from a standby.
func TestFailover(t *testing.T) {
	t.Parallel()
	primary, first, second := startThree(t)
	primary.do("INSERT INTO rows DEFAULT VALUES")
	first.awaitRows("2")
	second.awaitRows("2")
	primary.kill()
	primary.loseVolume()

	again := primary.start(0)
	again.awaitOutput("kubectl exec db-0 -- sh")
	if output, err := again.exec("live.sh"); err != nil {
		t.Errorf("a primary that waits is not alive: %s", output)
	}
	if _, err := again.exec("ready.sh"); err == nil {
		t.Error("a primary that waits is ready")
	}
	if output, err := again.exec("failover.sh", "4"); err == nil {
		t.Errorf("a server that does not run is accepted: %s", output)
	}
	if output, err := again.exec("failover.sh", "1"); err != nil {
		t.Fatal(output)
	}
	again.awaitReady()

	again.awaitRows("2")
	again.do("INSERT INTO rows DEFAULT VALUES")
	for _, s := range []*server{first, second} {
		s.awaitReady()
		s.awaitRows("3")
	}
	if output, err := again.exec("failover.sh", "new"); err == nil {
		t.Errorf("a primary with data fails over: %s", output)
	}
	if strings.Contains(first.output.String(), "pg_hba.conf rejects") {
		t.Errorf("the standby logs how the primary looked for it:\n%s", first.output)
	}
}

// TestPrimaryWithoutVolumeWaitsWhileNoStandbyRuns: standbys that are down have the data, too.
func TestPrimaryWithoutVolumeWaitsWhileNoStandbyRuns(t *testing.T) {
	t.Parallel()
	primary, first, second := startThree(t)
	first.awaitRows("1")
	for _, s := range []*server{first, second, primary} {
		s.kill()
	}
	primary.loseVolume()
	expect.NoError(t, os.WriteFile(filepath.Join(primary.variables["SCRIPTS"], "initialized"), []byte("true"), 0o644))

	again := primary.start(0)
	again.awaitOutput("failover.sh <its ordinal>")
	standby := first.start(1)
	standby.awaitRows("1")
	if output, err := again.exec("failover.sh", "1"); err != nil {
		t.Fatal(output)
	}
	again.awaitReady()

	again.awaitRows("1")
}

// TestStandbyAheadOfNewPrimaryWaitsForPerson: such a standby has rows that the new primary never
// had.
func TestStandbyAheadOfNewPrimaryWaitsForPerson(t *testing.T) {
	t.Parallel()
	primary, first, second := startThree(t)
	first.awaitRows("1")
	first.stop()
	primary.do("INSERT INTO rows (filler) SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
	second.awaitRows("20001")
	primary.kill()
	primary.loseVolume()
	behind := first.start(1)
	behind.awaitReady()
	again := primary.start(0)
	again.awaitOutput("kubectl exec")
	if output, err := again.exec("failover.sh", "1"); err != nil {
		t.Fatal(output)
	}
	again.awaitReady()

	cluster.Eventually(t.Context(), t, "the standby waits", func(context.Context) (bool, error) {
		if output, err := second.exec("live.sh"); err != nil {
			return false, errors.New(output)
		}
		output, err := second.exec("ready.sh")
		return err != nil && strings.Contains(output, "may have data that the primary lacks"), errors.New(output)
	})
	second.awaitRows("20001")
	if output, err := second.exec("reclone.sh"); err != nil {
		t.Fatal(output)
	}
	second.awaitExit()
	cloned := second.start(2)
	cloned.awaitReady()

	cloned.awaitRows("1")
	behind.awaitReady()
}

// TestStandbyOfAnotherDatabaseKeepsItsData: the primary was made anew, so the standby has the only
// copy of the data.
func TestStandbyOfAnotherDatabaseKeepsItsData(t *testing.T) {
	t.Parallel()
	primary, first, _ := startThree(t)
	first.awaitRows("1")
	primary.kill()
	primary.loseVolume()
	again := primary.start(0)
	again.awaitOutput("kubectl exec")
	if output, err := again.exec("failover.sh", "new"); err != nil {
		t.Fatal(output)
	}
	again.awaitReady()

	output, err := first.exec("live.sh")
	if err != nil {
		t.Errorf("the standby is not alive: %s", output)
	}
	if output, err := first.exec("ready.sh"); err == nil {
		t.Errorf("a standby that cannot follow is ready: %s", output)
	}
	first.awaitRows("1")
	expect.NoError(t, os.WriteFile(filepath.Join(first.volume(), "reclone"), nil, 0o644))
	first.stop()
	kept := first.start(1)
	kept.awaitRows("1")
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package postgresql

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/example/demoapp-controller/pkg/serving"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// setParameters writes the file of the ConfigMap with the parameters, as the kubelet does.
func (d *database) setParameters(text string) {
	d.t.Helper()
	expect.NoError(d.t, os.WriteFile(filepath.Join(d.variables["SCRIPTS"], "parameters.conf"), []byte(text), 0o644))
}

// allParameters has each name that admission allows.
const allParameters = `autovacuum = 'on'
autovacuum_analyze_scale_factor = '0.05'
autovacuum_analyze_threshold = '100'
autovacuum_max_workers = '4'
autovacuum_naptime = '1min'
autovacuum_vacuum_cost_limit = '400'
autovacuum_vacuum_scale_factor = '0.1'
autovacuum_vacuum_threshold = '100'
autovacuum_work_mem = '32MB'
auto_explain.log_min_duration = '5s'
checkpoint_completion_target = '0.9'
checkpoint_timeout = '15min'
deadlock_timeout = '1min'
default_statistics_target = '200'
default_transaction_isolation = 'repeatable read'
effective_cache_size = '96MB'
effective_io_concurrency = '2'
hot_standby_feedback = 'on'
idle_in_transaction_session_timeout = '10min'
jit = 'off'
lock_timeout = '30s'
log_autovacuum_min_duration = '10s'
log_checkpoints = 'on'
log_connections = 'on'
log_disconnections = 'on'
log_lock_waits = 'on'
log_min_duration_statement = '500ms'
log_statement = 'ddl'
maintenance_work_mem = '32MB'
max_connections = '40'
max_locks_per_transaction = '100'
max_parallel_maintenance_workers = '2'
max_parallel_workers = '4'
max_parallel_workers_per_gather = '2'
max_prepared_transactions = '5'
max_standby_streaming_delay = '1min'
max_worker_processes = '10'
pg_stat_statements.max = '1000'
pg_stat_statements.track = 'all'
random_page_cost = '1.1'
seq_page_cost = '1'
shared_buffers = '32MB'
shared_preload_libraries = 'pg_stat_statements,auto_explain,pg_prewarm'
statement_timeout = '1h'
synchronous_commit = 'on'
temp_buffers = '16MB'
track_io_timing = 'on'
work_mem = '8MB'
`

func TestServersAcceptAllParameters(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.setParameters(allParameters)

	primary := d.start(0)
	primary.awaitReady()

	refused := primary.superuser("SELECT string_agg(name || ': ' || coalesce(error, 'not applied'), '; ') FROM pg_file_settings " +
		"WHERE sourcefile LIKE '%parameters.conf' AND (error IS NOT NULL OR NOT applied)")
	expect.Equal(t, "refused parameters", "", refused)
	expect.Equal(t, "max_connections", "40", primary.superuser("SHOW max_connections"))
	expect.Equal(t, "settings of the operator", "replica on", primary.superuser("SELECT concat_ws(' ', current_setting('wal_level'), current_setting('hot_standby'))"))
}

// TestParametersWithoutRestart: the readiness probe reloads the configuration.
func TestParametersWithoutRestart(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.setParameters("work_mem = '8MB'\n")
	primary := d.start(0)
	primary.awaitReady()
	expect.Equal(t, "work_mem", "8MB", primary.superuser("SHOW work_mem"))

	d.setParameters("work_mem = '16MB'\n")
	primary.awaitReady()

	awaitSetting(t, primary, "work_mem", "16MB")
}

func awaitSetting(t *testing.T, s *server, name, want string) {
	t.Helper()
	cluster.Eventually(t.Context(), t, name+" is "+want, func(context.Context) (bool, error) {
		got := s.superuser("SHOW " + name)
		return got == want, errors.New(got)
	})
}

// TestInvalidParameterIsNamed: a value that admission cannot judge.
func TestInvalidParameterIsNamed(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.setParameters("shared_buffers = 'lots'\n")

	primary := d.start(0)

	expect.Equal(t, "exit code", 1, primary.awaitExit())
	for _, text := range []string{`invalid value for parameter "shared_buffers"`, "correct spec.parameters"} {
		if !strings.Contains(primary.output.String(), text) {
			t.Errorf("output is %q, want %q in it", primary.output, text)
		}
	}
}

// TestFewerConnectionsRollFromStandbyToPrimary: a standby restarts first, and must not have fewer
// connections than the primary.
func TestFewerConnectionsRollFromStandbyToPrimary(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.setParameters("max_connections = '60'\n")
	primary, standby := d.start(0), d.start(1)
	primary.awaitReady()
	standby.awaitReady()
	primary.do("CREATE TABLE rows ()")
	standby.awaitRows("0")

	d.setParameters("max_connections = '30'\n")
	standby.stop()
	standby = standby.start(1)
	standby.awaitReady()
	expect.Equal(t, "connections of the standby", "60", standby.superuser("SHOW max_connections"))
	primary.stop()
	primary = primary.start(0)
	primary.awaitReady()

	expect.Equal(t, "connections of the primary", "30", primary.superuser("SHOW max_connections"))
	standby.awaitReady()
	primary.do("INSERT INTO rows DEFAULT VALUES")
	standby.awaitRows("1")
}

// TestStandbyFollowsPrimaryWithMoreConnections: the primary restarts alone, and the standby would
// pause.
func TestStandbyFollowsPrimaryWithMoreConnections(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.setParameters("max_connections = '30'\n")
	primary, standby := d.start(0), d.start(1)
	primary.awaitReady()
	standby.awaitReady()
	primary.do("CREATE TABLE rows ()")
	standby.awaitRows("0")

	d.setParameters("max_connections = '60'\n")
	primary.stop()
	primary = primary.start(0)
	primary.awaitReady()
	primary.do("INSERT INTO rows DEFAULT VALUES")
	cluster.Eventually(t.Context(), t, "the liveness probe restarts the standby", func(context.Context) (bool, error) {
		output, err := standby.exec("live.sh")
		return err != nil && strings.Contains(output, "the primary has raised a setting"), errors.New(output)
	})
	standby.awaitExit()
	standby = standby.start(1)

	standby.awaitReady()
	standby.awaitRows("1")
}

// certify writes a certificate of the operator's kind for the servers, and returns the file with
// the certificates of its CA.
func (d *database) certify(observed serving.Material, now time.Time) (material serving.Material, authority string) {
	d.t.Helper()
	material, _, err := observed.Renew("db", []string{"db.ns.svc", "*.db-headless.ns.svc"}, true, now)
	expect.NoError(d.t, err)
	data, err := material.Encode()
	expect.NoError(d.t, err)
	folder := d.variables["CERTIFICATE"]
	expect.NoError(d.t, os.MkdirAll(folder, 0o755))
	for _, key := range []string{"tls.crt", "tls.key"} {
		// As the kubelet does for a volume with the group of the pod.
		path := filepath.Join(folder, key)
		expect.NoError(d.t, errors.Join(os.WriteFile(path, data[key], 0o440), os.Chown(path, 0, int(d.credential.Gid)), os.Chmod(path, 0o440)))
	}
	authority = filepath.Join(d.folder, "ca.crt")
	expect.NoError(d.t, errors.Join(os.WriteFile(authority, data[serving.CABundleKey], 0o644), os.Chmod(d.folder, 0o755)))
	return material, authority
}

// connect connects to a server with these parameters of libpq, and returns whether TLS is used.
func (s *server) connect(parameters string) (string, error) {
	command := exec.CommandContext(s.t.Context(), filepath.Join(binaries, "psql"), "--no-psqlrc", "--no-password", "--tuples-only", "--no-align",
		"--command=SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
		"hostaddr=127.0.0.1 port="+s.port()+" user=app dbname=app "+parameters)
	command.Env = []string{"PGPASSWORD=" + password, "PGCONNECT_TIMEOUT=10"}
	output, err := command.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

func TestTLS(t *testing.T) {
	t.Parallel()
	for mode, plain := range map[string]string{"on": "f|", "required": "no pg_hba.conf entry"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			d := newDatabase(t)
			d.variables["TLS"], d.variables["CERTIFICATE"] = mode, filepath.Join(d.folder, "tls")
			_, authority := d.certify(serving.Material{}, time.Now())
			primary, standby := d.start(0), d.start(1)
			primary.awaitReady()
			standby.awaitReady()
			tests := []struct{ name, parameters, want string }{
				{"verified", "sslmode=verify-full host=db.ns.svc sslrootcert=" + authority, "t|TLSv1.3"},
				{"verified, by the name of a pod", "sslmode=verify-full host=db-0.db-headless.ns.svc sslrootcert=" + authority, "t|TLSv1.3"},
				{"another name", "sslmode=verify-full host=other.ns.svc sslrootcert=" + authority, `does not match host name "other.ns.svc"`},
				{"another CA", "sslmode=verify-full host=db.ns.svc sslrootcert=/dev/null", "could not"},
				{"an old protocol", "sslmode=require ssl_min_protocol_version=TLSv1 ssl_max_protocol_version=TLSv1.1", "SSL error"},
				{"without TLS", "sslmode=disable", plain},
			}
			for _, test := range tests {
				if output, _ := primary.connect(test.parameters); !strings.Contains(output, test.want) {
					t.Errorf("%s: got %q, want %q", test.name, output, test.want)
				}
			}
			expect.Equal(t, "connections of standbys with TLS", "1",
				primary.superuser("SELECT count(*) FROM pg_stat_replication JOIN pg_stat_ssl USING (pid) WHERE ssl"))
		})
	}
}

// TestRenewedCertificateNeedsNoRestart: the readiness probe reloads the certificate.
func TestRenewedCertificateNeedsNoRestart(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	d.variables["TLS"], d.variables["CERTIFICATE"] = "required", filepath.Join(d.folder, "tls")
	old, _ := d.certify(serving.Material{}, time.Now().Add(-70*24*time.Hour))
	primary := d.start(0)
	primary.awaitReady()
	serial := func() string {
		output, err := exec.CommandContext(t.Context(), "sh", "-c",
			"openssl s_client -starttls postgres -connect 127.0.0.1:"+primary.port()+" </dev/null 2>/dev/null | openssl x509 -noout -serial").CombinedOutput()
		expect.NoError(t, err)
		return string(output)
	}
	before := serial()

	_, authority := d.certify(old, time.Now())
	primary.awaitReady()

	cluster.Eventually(t.Context(), t, "the server uses the new certificate", func(context.Context) (bool, error) {
		return serial() != before, nil
	})
	output, err := primary.connect("sslmode=verify-full host=db.ns.svc sslrootcert=" + authority)
	expect.NoError(t, err)
	expect.Equal(t, "connection", "t|TLSv1.3", output)
}

// TestTLSIsEnabledWhileServersRun: standbys restart first, and the primary still has no
// certificate.
func TestTLSIsEnabledWhileServersRun(t *testing.T) {
	t.Parallel()
	d := newDatabase(t)
	primary, standby := d.start(0), d.start(1)
	primary.awaitReady()
	standby.awaitReady()
	primary.do("CREATE TABLE rows ()")
	d.variables["TLS"], d.variables["CERTIFICATE"] = "required", filepath.Join(d.folder, "tls")
	_, authority := d.certify(serving.Material{}, time.Now())

	standby.stop()
	standby = standby.start(1)
	standby.awaitReady()
	primary.stop()
	primary = primary.start(0)
	primary.awaitReady()
	standby.awaitReady()

	for _, s := range []*server{primary, standby} {
		output, err := s.connect("sslmode=verify-full host=db.ns.svc sslrootcert=" + authority)
		expect.NoError(t, err)
		expect.Equal(t, "connection", "t|TLSv1.3", output)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

// neededLocks matches the setting in the message of a restore.
var neededLocks = regexp.MustCompile(`set max_locks_per_transaction of the server to (\d+) or more, restart the server`)

// TestRestoreNeedsLocks: one transaction holds a lock on each table, and on each large object that
// it replaces. A server with the setting in the message restores the dump.
func TestRestoreNeedsLocks(t *testing.T) {
	// The servers have room for 320 locks, and for some more in shared memory that nothing else takes.
	few := []string{
		"max_connections=10", "max_worker_processes=8", "max_wal_senders=10", "autovacuum_max_workers=3", "max_locks_per_transaction=10",
	}
	// Only the tables themselves are locked by a dump.
	const tables = `SET ROLE app; CREATE SCHEMA s%[1]d; DO $$ BEGIN FOR n IN 1..20 LOOP
		EXECUTE 'CREATE TABLE s%[1]d.t' || n || ' (id serial PRIMARY KEY, a text UNIQUE, b text UNIQUE, c text UNIQUE, d text UNIQUE, e text UNIQUE)';
		END LOOP; END $$`
	tests := map[string]struct {
		fill    func(d *database)
		replace bool
		objects string
	}{
		"tables": {
			fill: func(d *database) {
				for schema := range 8 {
					d.execute("shop", fmt.Sprintf(tables, schema))
				}
			},
			objects: "SELECT count(*) FROM pg_tables WHERE tableowner = 'app'",
		},
		"large objects that are replaced": {
			fill: func(d *database) {
				d.execute("shop", "SET ROLE app; SELECT count(lo_create(0)) FROM generate_series(1, 1500)")
			},
			replace: true,
			objects: "SELECT count(*) FROM pg_largeobject_metadata",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := startPostgreSQL(t, few...)
			d.create("shop")
			d.create("other")
			d.execute("shop", "GRANT CREATE ON DATABASE shop TO app")
			test.fill(d)
			r := newRun(t, source(d, "shop"), destination(startStore(t)))
			r.succeed("dump.sh")
			r.environment["RESTORE_DATABASE"] = "other"
			if test.replace {
				r.succeed("restore.sh", "load")
			}
			before := d.execute("other", test.objects)
			r.environment["RESTORE_REPLACE"] = fmt.Sprint(test.replace)

			code, output, message := r.script("restore.sh", "load")

			needed := neededLocks.FindStringSubmatch(message)
			if code != 11 || needed == nil || !strings.Contains(message, "ERROR:  out of shared memory: database other is unchanged") {
				t.Fatalf("the restore ended with exit code %d and message %q:\n%s", code, message, output)
			}
			t.Log(message)
			expect.Equal(t, "objects of the database", before, d.execute("other", test.objects))
			larger := startPostgreSQL(t, append(few, "max_locks_per_transaction="+needed[1])...)
			larger.create("other")
			r.environment["BACKUP_PORT"] = fmt.Sprint(larger.port)
			r.succeed("restore.sh", "load")
			if test.replace {
				r.succeed("restore.sh", "load")
			}
			expect.Equal(t, "objects of the restored database", d.execute("shop", test.objects), larger.execute("other", test.objects))
		})
	}
}

// TestRowLargerThanPacket: each byte of a binary value takes two in a dump.
func TestRowLargerThanPacket(t *testing.T) {
	d := startMariaDB(t)
	d.create("shop")
	d.create("other")
	d.execute("shop", "CREATE TABLE files (data longblob); INSERT INTO files VALUES (repeat('secret', 1700000))")
	r := newRun(t, source(d, "shop"), destination(startStore(t)))
	r.succeed("dump.sh")
	r.environment["RESTORE_DATABASE"] = "other"

	code, output, message := r.script("restore.sh", "load")

	expect.Equal(t, "exit code", 11, code)
	expect.Contains(t, "message", message, "database other is empty again", "larger than max_allowed_packet of the server, 16777216 bytes",
		"run SET GLOBAL max_allowed_packet = 1073741824")
	if len(output) > 4000 || strings.Contains(output, "736563726574") {
		t.Errorf("the log of %d bytes has rows: %.4000s", len(output), output)
	}
	t.Log(message)
	d.execute("mysql", "SET GLOBAL max_allowed_packet = 1073741824")
	r.succeed("restore.sh", "load")
	expect.Equal(t, "bytes", "10200000", d.execute("other", "SELECT length(data) FROM files"))
}

// TestLogHasNoRows: clients of databases print statements and rows that fail. A row with the words
// of another failure changes nothing.
func TestLogHasNoRows(t *testing.T) {
	const table = "CREATE TABLE orders (note text); INSERT INTO orders VALUES ('private: Access denied for user')"
	tests := map[string]struct {
		refuse  func(d *database, r *run)
		message string
	}{
		"postgresql": {func(_ *database, r *run) {
			r.program("pg_restore", lookUp(t, "pg_restore")+` "$@"; case "$*" in *--list*) ;; *) echo "SELECT missing, 'private: Access denied for user';" ;; esac`)
		}, `ERROR:  column "missing" does not exist: database other is unchanged`},
		"mysql": {func(d *database, r *run) {
			d.execute("mysql", "REVOKE INSERT ON other.* FROM app")
			r.program("mariadb", "exec "+lookUp(t, "mariadb")+` "$@" --print-query-on-error`)
		}, "ERROR 1142 (42000)"},
	}
	for kind, test := range tests {
		t.Run(kind, func(t *testing.T) {
			d := databases[kind](t)
			d.create("shop")
			d.create("other")
			d.execute("shop", table)
			if kind == "postgresql" {
				d.execute("shop", "ALTER TABLE orders OWNER TO app")
			}
			r := newRun(t, source(d, "shop"), destination(startStore(t)))
			r.succeed("dump.sh")
			r.environment["RESTORE_DATABASE"] = "other"
			test.refuse(d, r)

			_, output, _ := r.script("restore.sh", "load")

			expect.Contains(t, "log", output, test.message)
			if strings.Contains(output, "private") || strings.Contains(output, "refuses the login") {
				t.Errorf("the log has a row, or names another cause:\n%s", output)
			}
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// tables has values that a dump can lose, of each kind of database.
var tables = map[string]string{
	"postgresql": `CREATE TABLE orders (id int PRIMARY KEY, note text, data bytea); ALTER TABLE orders OWNER TO app;
		INSERT INTO orders VALUES (1, 'it''s "quoted" \ ; -- ü', '\x00ff'), (2, NULL, NULL);
		CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2'`,
	"mysql": `CREATE TABLE orders (id int PRIMARY KEY, note text, data blob);
		INSERT INTO orders VALUES (1, 'it''s "quoted" \\ ; -- ü', x'00ff'), (2, NULL, NULL);
		CREATE DEFINER=app FUNCTION twice(n int) RETURNS int DETERMINISTIC RETURN n * 2`,
}

// rows shows the content of those tables.
var rows = map[string]string{
	"postgresql": `SELECT id, note, encode(data, 'hex'), twice(id) FROM orders ORDER BY id`,
	"mysql":      `SELECT id, note, hex(data), twice(id) FROM orders ORDER BY id`,
}

func TestBackupIsRestored(t *testing.T) {
	for kind, start := range databases {
		t.Run(kind, func(t *testing.T) {
			d, s := start(t), startStore(t)
			d.create("shop")
			d.create("other")
			d.execute("shop", tables[kind])
			want := d.execute("shop", rows[kind])
			backup := newRun(t, source(d, "shop"), destination(s))

			begin := time.Now().UTC().Truncate(time.Second)
			backup.succeed("dump.sh")
			backup.succeed("upload.sh")

			files := s.files()
			if len(files) != 1 {
				t.Fatalf("the bucket has %q, want one dump", files)
			}
			stamp := regexp.MustCompile(`^team/db/shop\.orders-(\d{8}T\d{6}Z)\.(dump|sql\.gz)$`).FindStringSubmatch(files[0])
			if stamp == nil {
				t.Fatalf("the name of the dump is %q", files[0])
			}
			if at, err := time.Parse("20060102T150405Z", stamp[1]); err != nil || at.Before(begin) || at.After(time.Now()) {
				t.Errorf("the time in the name is %s, want the time of the dump (%v)", stamp[1], err)
			}
			restore := newRun(t, source(d, "shop"), destination(s))
			restore.environment["RESTORE_DATABASE"] = "other"
			if list := restore.succeed("restore.sh", "list"); strings.TrimSpace(list) != filepath.Base(files[0]) {
				t.Errorf("the list of dumps is %q", list)
			}
			restore.succeed("restore.sh", "fetch")
			restore.succeed("restore.sh", "load")
			if got := d.execute("other", rows[kind]); got != want || !strings.Contains(got, "quoted") {
				t.Errorf("rows of the restored database:\n%s\nwant:\n%s", got, want)
			} else {
				t.Logf("rows of both databases:\n%s", got)
			}

			d.execute("other", "DELETE FROM orders WHERE id = 1")
			restore.fail(11, "restore into an empty database, or replace them", "restore.sh", "load")
			restore.environment["RESTORE_REPLACE"] = "true"
			restore.succeed("restore.sh", "load")
			if got := d.execute("other", rows[kind]); got != want {
				t.Errorf("rows of the replaced database:\n%s\nwant:\n%s", got, want)
			}
			for _, r := range []*run{backup, restore} {
				if entries, err := os.ReadDir(filepath.Join(r.root, "secrets")); err != nil || len(entries) > 0 {
					t.Errorf("the login is left behind: %v, %v", entries, err)
				}
			}
		})
	}
}

// TestRestoreIntoOlderServer: pg_restore since version 17 sets a parameter that older servers do
// not have.
func TestRestoreIntoOlderServer(t *testing.T) {
	d, s := startPostgreSQL(t), startStore(t)
	d.create("shop")
	d.create("other")
	d.execute("shop", tables["postgresql"])
	r := newRun(t, source(d, "shop"), destination(s))
	r.succeed("dump.sh")
	r.program("pg_restore", `case "$*" in *--list*) ;; *) echo 'SET transaction_timeout = 0;' ;; esac; exec `+lookUp(t, "pg_restore")+` "$@"`)
	r.environment["RESTORE_DATABASE"] = "other"

	r.succeed("restore.sh", "load")

	if got, want := d.execute("other", rows["postgresql"]), d.execute("shop", rows["postgresql"]); got != want {
		t.Errorf("rows of the restored database:\n%s\nwant:\n%s", got, want)
	}
}

// TestFailedRestoreChangesNothing: the statements before an error are rolled back.
func TestFailedRestoreChangesNothing(t *testing.T) {
	d, s := startPostgreSQL(t), startStore(t)
	d.create("shop")
	d.create("other")
	d.execute("shop", tables["postgresql"])
	r := newRun(t, source(d, "shop"), destination(s))
	r.succeed("dump.sh")
	r.environment["RESTORE_DATABASE"] = "other"
	for name, test := range map[string]struct{ end, message string }{
		"a statement fails":  {"echo 'SELECT 1/0;'", "ERROR:  division by zero: database other is unchanged"},
		"pg_restore fails":   {"echo 'pg_restore: error: the archive ends early' >&2; exit 1", "the archive ends early: database other is unchanged"},
		"a hint follows":     {"echo 'SELECT lower(1);'", "ERROR:  function lower(integer) does not exist"},
		"a role is missing":  {"echo 'SET ROLE nobody;'", `psql failed: psql:<stdin>:`},
		"a quote stays open": {"printf \"SELECT '\"", "database other is unchanged"},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			r.program("pg_restore", lookUp(t, "pg_restore")+` "$@"; case "$*" in *--list*) ;; *) `+test.end+`;; esac`)

			r.fail(11, test.message, "restore.sh", "load")

			if got := d.execute("other", "SELECT count(*) FROM pg_stat_user_tables"); got != "0" {
				t.Errorf("the database has %s tables, want none", got)
			}
		})
	}
}

func TestSourceRefuses(t *testing.T) {
	for kind, start := range databases {
		t.Run(kind, func(t *testing.T) {
			d, s := start(t), startStore(t)
			d.create("shop")
			tests := map[string]struct {
				name, value string
				code        int
				message     string
			}{
				"a wrong password":           {"BACKUP_PASSWORD", "wrong", 10, "the database refuses the login"},
				"a password with line break": {"BACKUP_PASSWORD", password + "\n", 10, "spec.source.connection.credentialsSecret"},
				"an unknown user":            {"BACKUP_USERNAME", "nobody", 10, "the database refuses the login"},
				"an unknown database":        {"BACKUP_DATABASE", "missing", 10, "missing"},
				"a database as an option":    {"BACKUP_DATABASE", "--help", 10, "--help"},
				"a port without server":      {"BACKUP_PORT", fmt.Sprint(cluster.FreePort(t.Context(), t)), 11, "failed"},
			}
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					r := newRun(t, source(d, "shop"), destination(s))
					r.environment[test.name] = test.value

					r.fail(test.code, test.message, "dump.sh")

					if dumps := r.dumps(); len(dumps) > 0 {
						t.Errorf("the volume has %q", dumps)
					}
					r.fail(11, "there is no dump to upload", "upload.sh")
					if files := s.files(); len(files) > 0 {
						t.Errorf("the bucket has %q", files)
					}
				})
			}
		})
	}
}

// TestIncompleteDump: programs that end before the dump is complete leave nothing that could be
// uploaded.
func TestIncompleteDump(t *testing.T) {
	tests := map[string]struct{ kind, program, script, message string }{
		"pg_dump fails":             {"postgresql", "pg_dump", "echo half >$BACKUP_DIR/.part; echo 'disk full' >&2; exit 1", "pg_dump failed: disk full"},
		"pg_dump writes no archive": {"postgresql", "pg_dump", "echo half >$BACKUP_DIR/.part", "the dump cannot be read"},
		"mariadb-dump fails":        {"mysql", "mariadb-dump", "echo half; echo 'server has gone' >&2; exit 3", "server has gone"},
		"mariadb-dump is cut short": {"mysql", "mariadb-dump", "echo half", "the dump has no end"},
		"mongodump writes nothing":  {"mongodb", "mongodump", ": >$BACKUP_DIR/.part; echo 'done dumping' >&2", "the dump is empty"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, source(&database{kind: test.kind}, "shop"), backupv1.Destination{Type: backupv1.DestinationS3})
			r.program(test.program, test.script)

			r.fail(11, test.message, "dump.sh")

			if dumps := r.dumps(); len(dumps) > 0 {
				t.Errorf("the volume has %q", dumps)
			}
		})
	}
}

// newUpload returns a run whose dump is complete, and the name of the dump.
func newUpload(t *testing.T, s *store) (*run, string) {
	t.Helper()
	r := newRun(t, source(&database{kind: backupv1.SourcePostgreSQL}, "shop"), destination(s))
	name := nameAt(0)
	expect.NoError(t, os.WriteFile(filepath.Join(r.dir, name), []byte("the dump"), 0o644))
	return r, name
}

// nameAt returns the name of a dump of some age.
func nameAt(age time.Duration) string {
	return "shop.orders-" + time.Now().UTC().Add(-age).Format("20060102T150405Z") + ".dump"
}

func TestPruneByAge(t *testing.T) {
	s := startStore(t)
	r, name := newUpload(t, s)
	keep := []string{
		"team/db/" + nameAt(23*time.Hour), "team/db/" + nameAt(-time.Hour),
		"team/db/shop.orders-eu-20200101T000000Z.dump", "team/db/shop.orders-20200101T000000Z.dump.old", "team/db/shop.orders-2020.dump",
		"team/db/other.orders-20200101T000000Z.dump", "team/db/below/shop.orders-20200101T000000Z.dump",
		"team/shop.orders-20200101T000000Z.dump", "team/db/readme", "team/db/shop.orders-20200101T000000Z.sql.gz",
		"team/db/shop.orders-20200101T000000Z.archive.gz",
	}
	drop := []string{
		"team/db/" + nameAt(25*time.Hour), "team/db/shop.orders-20200101T000000Z.dump",
	}
	for _, file := range slices.Concat(keep, drop) {
		s.put(file)
	}

	r.succeed("upload.sh")

	want := slices.Concat(keep, []string{"team/db/" + name})
	slices.Sort(want)
	if got := s.files(); !slices.Equal(got, want) {
		t.Errorf("the bucket has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOwnerChangesDuringUpload: of two Backups that claim the dumps at once, one prunes.
func TestOwnerChangesDuringUpload(t *testing.T) {
	s := startStore(t)
	r, _ := newUpload(t, s)
	s.put("team/db/shop.orders-20200101T000000Z.dump")
	r.program("rclone", `case "$*" in
		*' cat '*) if [ -e "$BACKUP_DIR/.seen" ]; then echo uid-2; fi; : >"$BACKUP_DIR/.seen";;
		*) exec `+lookUp(t, "rclone")+` "$@";;
	esac`)

	r.fail(25, "uid-2", "upload.sh")

	if !slices.Contains(s.files(), "team/db/shop.orders-20200101T000000Z.dump") {
		t.Error("a dump of another Backup is deleted")
	}
}

// TestNewestDumpStays: a retention that is shorter than the upload does not delete the dump that
// was just stored.
func TestNewestDumpStays(t *testing.T) {
	s := startStore(t)
	r, name := newUpload(t, s)
	r.environment["BACKUP_RETENTION_SECONDS"] = "-60"
	s.put("team/db/" + nameAt(time.Hour))

	r.succeed("upload.sh")

	if got := s.files(); !slices.Equal(got, []string{"team/db/" + name}) {
		t.Errorf("the bucket has %q, want the newest dump", got)
	}
}

func TestDestinationRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		name, value string
		code        int
		message     string
	}{
		"a wrong key":              {"RCLONE_CONFIG_DEST_ACCESS_KEY_ID", "wrong", 20, "bucket backups refuses access"},
		"a key with line break":    {"RCLONE_CONFIG_DEST_ACCESS_KEY_ID", accessKey + "\n", 20, "has a blank or a line break"},
		"a secret with line break": {"RCLONE_CONFIG_DEST_SECRET_ACCESS_KEY", secretKey + "\r\n", 20, "has a blank or a line break"},
		"a token with line break":  {"RCLONE_CONFIG_DEST_SESSION_TOKEN", "token\n", 20, "has a blank or a line break"},
		"a proxy with line break":  {"HTTPS_PROXY", "http://proxy.example.com:3128\n", 20, "has a blank or a line break"},
		"an Azure key with blank":  {"RCLONE_CONFIG_DEST_KEY", " a", 20, "has a blank or a line break"},
		"a missing bucket":         {"BACKUP_BUCKET", "missing", 21, "bucket missing does not exist"},
		"a wrong endpoint":         {"RCLONE_CONFIG_DEST_ENDPOINT", "http://127.0.0.1:1", 22, "the upload failed"},
		"an unknown remote":        {"RCLONE_CONFIG_DEST_TYPE", "unknown", 22, "the upload failed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startStore(t)
			s.put("team/db/" + nameAt(48*time.Hour))
			before := s.files()
			r, _ := newUpload(t, s)
			r.environment[test.name] = test.value

			r.fail(test.code, test.message, "upload.sh")

			if after := s.files(); !slices.Equal(before, after) {
				t.Errorf("the bucket has %q, want %q: old dumps stay until a new one is stored", after, before)
			}
		})
	}
}

func TestStoredFileDiffers(t *testing.T) {
	s := startStore(t)
	r, _ := newUpload(t, s)
	s.put("team/db/" + nameAt(48*time.Hour))
	r.program("rclone", `case "$*" in *' check '*) echo 'ERROR : sizes differ' >&2; exit 1;; esac`)

	r.fail(23, "the stored file differs from the dump: ERROR : sizes differ", "upload.sh")

	if len(s.files()) != 1 {
		t.Error("old dumps are deleted after a failed upload")
	}
}

func TestGCSCredentialsAreNotShown(t *testing.T) {
	for name, shown := range map[string]string{"all": `{"key": "hidden"}`, "a line": `"private_key": "-----BEGIN PRIVATE KEY-----hidden"`} {
		t.Run(name, func(t *testing.T) {
			r, _ := newUpload(t, startStore(t))
			r.environment["RCLONE_CONFIG_DEST_SERVICE_ACCOUNT_CREDENTIALS"] = `{"key": "hidden"}`
			r.program("rclone", "printf '%s\\n' 'ERROR : first' 'ERROR : "+shown+"' >&2; exit 1")

			code, output, message := r.script("upload.sh")

			if code != 22 || !strings.Contains(message, "the message is left out, because it has a secret") {
				t.Errorf("exit code %d and message %q, want 22 and a message that is left out", code, message)
			}
			if strings.Contains(output, "hidden") || !strings.Contains(output, "ERROR : first\n") {
				t.Errorf("the output has the secret, or lacks the other line:\n%s", output)
			}
		})
	}
}

func TestPruneFails(t *testing.T) {
	s := startStore(t)
	r, name := newUpload(t, s)
	r.program("rclone", `case "$*" in *' lsf '*) echo 'ERROR : AccessDenied' >&2; exit 1;; esac`)

	r.fail(24, name+" is stored, but the stored dumps cannot be listed: ERROR : AccessDenied", "upload.sh")
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

// mixed is a database of PostgreSQL whose objects have several owners, and that only a superuser
// can make. app may read all tables.
const mixed = `
	CREATE ROLE author; CREATE ROLE reader;
	CREATE EXTENSION pg_stat_statements; CREATE EXTENSION hstore;
	CREATE SCHEMA sales AUTHORIZATION app; CREATE SCHEMA "of the author" AUTHORIZATION author;
	GRANT USAGE ON SCHEMA "of the author" TO app; GRANT CREATE ON SCHEMA public TO author;
	COMMENT ON SCHEMA public IS 'changed';
	SET ROLE author;
	CREATE TABLE "of the author"."Lines" (id int PRIMARY KEY, note text); INSERT INTO "of the author"."Lines" VALUES (7, 'line');
	GRANT SELECT ON "of the author"."Lines" TO app;
	CREATE FUNCTION mark() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.note := NEW.note || '' marked''; RETURN NEW; END';
	RESET ROLE; SET ROLE app;
	CREATE TABLE sales.orders (id serial PRIMARY KEY, note text, tags hstore); GRANT SELECT ON sales.orders TO reader; GRANT TRIGGER ON sales.orders TO author;
	INSERT INTO sales.orders (note, tags) VALUES ('first', 'a=>1');
	ALTER TABLE sales.orders ENABLE ROW LEVEL SECURITY; CREATE POLICY all_rows ON sales.orders USING (true);
	SELECT lo_from_bytea(4242, '\x00ff');
	RESET ROLE;
	GRANT USAGE ON SCHEMA sales TO author;
	SET ROLE author; CREATE TRIGGER mark BEFORE INSERT ON sales.orders FOR EACH ROW EXECUTE FUNCTION mark(); RESET ROLE;
	CREATE VIEW notes AS SELECT note FROM sales.orders; CREATE MATERIALIZED VIEW counts AS SELECT count(*) FROM sales.orders;
	CREATE FUNCTION twice(n int) RETURNS int LANGUAGE sql AS 'SELECT n * 2';
	CREATE FUNCTION on_ddl() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
	CREATE EVENT TRIGGER watch ON ddl_command_end EXECUTE FUNCTION on_ddl();
	CREATE PUBLICATION everything FOR ALL TABLES;`

// content shows the content of that database, and that its trigger works.
const content = `INSERT INTO sales.orders (note) VALUES ('second');
	SELECT (SELECT string_agg(note, ',' ORDER BY note) FROM notes), (SELECT count FROM counts), twice(21), encode(lo_get(4242), 'hex'),
		(SELECT note FROM "of the author"."Lines"), (SELECT tags->'a' FROM sales.orders WHERE id = 1)`

const wantContent = "first,second marked|1|42|00ff|line|1"

// newMixed returns a server with that database as "shop" and the empty database "other", and a run
// that has dumped it, and that restores into "other".
func newMixed(t *testing.T) (*database, *run) {
	t.Helper()
	d := startPostgreSQL(t)
	d.create("shop")
	d.create("other")
	d.execute("shop", mixed)
	r := newRun(t, source(d, "shop"), destination(startStore(t)))
	r.succeed("dump.sh")
	r.succeed("upload.sh")
	r.environment["RESTORE_DATABASE"] = "other"
	return d, r
}

// TestOwnerRestoresObjectsOfOthers: the owner of a database becomes the owner of all objects.
// The script asks for extensions that the owner may not create, and names further objects that it
// leaves out.
func TestOwnerRestoresObjectsOfOthers(t *testing.T) {
	d, r := newMixed(t)

	r.fail(11, `database other is unchanged: it lacks extensions that user app may not create: as a superuser, run in it: CREATE EXTENSION "pg_stat_statements";`,
		"restore.sh", "load")
	d.execute("other", `CREATE EXTENSION pg_stat_statements; CREATE SCHEMA "of"`) // Not "of the author".
	output := r.succeed("restore.sh", "load")

	for _, left := range []string{"EVENT TRIGGER - watch", "PUBLICATION - everything"} {
		expect.Contains(t, "output", output, "left out, because only a superuser may make it: "+left)
	}
	expect.Equal(t, "content", wantContent, d.execute("other", "SET ROLE app; "+content))
	expect.Equal(t, "owners", "app", d.execute("other", `SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname IN ('sales', 'of the author')`))
	r.environment["RESTORE_REPLACE"] = "true"
	r.succeed("restore.sh", "load")
	expect.Equal(t, "content after it was replaced", wantContent, d.execute("other", "SET ROLE app; "+content))
}

// TestSuperuserRestoresOwners: a superuser restores all objects with their owners and privileges,
// and can be removed afterwards, by the commands of docs/backup.md.
func TestSuperuserRestoresOwners(t *testing.T) {
	blocks := documented(t, "backup.md")
	d, r := newMixed(t)
	d.create("orders_restored")
	do := shell(t, d, r)

	output, err := do(blocks["restore as a superuser"])
	if err != nil || !strings.Contains(output, "loaded shop.orders-") || strings.Contains(output, "left out") {
		t.Fatalf("the restore ends with %v:\n%s", err, output)
	}
	expect.Equal(t, "superusers", "1", d.execute("postgres", "SELECT count(*) FROM pg_roles WHERE rolname = 'restorer'"))
	if output, err = do(blocks["remove the superuser"]); err != nil {
		t.Fatalf("the removal of the superuser ends with %v:\n%s", err, output)
	}

	expect.Equal(t, "superusers after the removal", "0", d.execute("postgres", "SELECT count(*) FROM pg_roles WHERE rolname = 'restorer'"))
	if left, err := do("ls -A secrets; ls password 2>/dev/null || :"); err != nil || left != "" {
		t.Errorf("left of the superuser: %q (%v)", left, err)
	}
	expect.Equal(t, "owners", "app,author", d.execute("orders_restored",
		`SELECT string_agg(tableowner, ',' ORDER BY tableowner) FROM pg_tables WHERE schemaname IN ('sales', 'of the author')`))
	expect.Equal(t, "objects of a superuser", "1|1|1|t", d.execute("orders_restored", `SELECT (SELECT count(*) FROM pg_event_trigger),
		(SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_extension WHERE extname = 'pg_stat_statements'),
		has_table_privilege('reader', 'sales.orders', 'SELECT')`))
	first, rest, _ := strings.Cut(content, ";")
	expect.Equal(t, "content", wantContent, d.execute("orders_restored", "SET ROLE app; "+first+"; RESET ROLE;"+rest))
}

// TestDocumentedCopy runs the commands of docs/postgresql.md, which copy a database with objects of
// several users to a server of another version.
func TestDocumentedCopy(t *testing.T) {
	blocks := documented(t, "postgresql.md")
	before, after := startPostgreSQL(t), startPostgreSQL(t)
	before.create("app")
	after.create("app")
	before.execute("app", mixed+"CREATE VIEW slow AS SELECT query FROM pg_stat_statements")
	do := shell(t, before, newRun(t, source(before, "app"), destination(startStore(t))))
	_, err := do(fmt.Sprintf("mkdir servers; echo port=%d socket=%s >servers/shop-db-17-0", after.port, after.socket))
	expect.NoError(t, err)

	output, err := do(blocks["copy the database"])
	if err == nil || !strings.Contains(output, `role "author" does not exist`) {
		t.Errorf("a copy without a role ends with %v:\n%s", err, output)
	}
	expect.Equal(t, "tables after an error", "0", after.execute("app", "SELECT count(*) FROM pg_stat_user_tables"))
	after.execute("app", "CREATE ROLE author; CREATE ROLE reader")
	if output, err = do(blocks["copy the database"]); err != nil {
		t.Fatalf("the copy ends with %v:\n%s", err, output)
	}

	expect.Equal(t, "owners", "app,author", after.execute("app",
		`SELECT string_agg(tableowner, ',' ORDER BY tableowner) FROM pg_tables WHERE schemaname IN ('sales', 'of the author')`))
	first, rest, _ := strings.Cut(content, ";")
	expect.Equal(t, "content", wantContent, after.execute("app", "SET ROLE app; "+first+"; RESET ROLE;"+rest))
	expect.Equal(t, "extension", "1", after.execute("app", "SELECT count(*) FROM pg_extension WHERE extname = 'pg_stat_statements'"))
	expect.Equal(t, "view on the extension", "1", after.execute("app", "SELECT count(*) FROM pg_views WHERE viewname = 'slow'"))
}

// TestRefusedObjects: an owner may not restore objects that docs/backup.md names.
func TestRefusedObjects(t *testing.T) {
	tests := map[string]struct{ objects, message string }{
		"a foreign server": {"CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw", "permission denied for foreign-data wrapper file_fdw"},
		"a function with a setting": {
			"CREATE FUNCTION quiet() RETURNS int LANGUAGE sql SET session_replication_role = replica AS 'SELECT 1'",
			`permission denied to set parameter "session_replication_role"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := startPostgreSQL(t)
			d.create("shop")
			d.create("other")
			d.execute("other", "CREATE EXTENSION file_fdw")
			d.execute("shop", test.objects)
			r := newRun(t, source(d, "shop"), destination(startStore(t)))
			r.succeed("dump.sh")
			r.environment["RESTORE_DATABASE"] = "other"

			r.fail(11, test.message+": database other is unchanged", "restore.sh", "load")
		})
	}
}

// TestUnreadableTableFailsTheDump: a dump that lacks rows is not stored.
func TestUnreadableTableFailsTheDump(t *testing.T) {
	d := startPostgreSQL(t)
	d.create("shop")
	d.execute("shop", "CREATE TABLE secrets (id int)")
	r := newRun(t, source(d, "shop"), destination(startStore(t)))

	r.fail(11, "permission denied for table secrets", "dump.sh")
}

func TestEmptyDatabaseIsRestored(t *testing.T) {
	for kind, start := range databases {
		t.Run(kind, func(t *testing.T) {
			d := start(t)
			d.create("shop")
			d.create("other")
			r := newRun(t, source(d, "shop"), destination(startStore(t)))
			r.succeed("dump.sh")
			r.environment["RESTORE_DATABASE"] = "other"

			r.succeed("restore.sh", "load")
		})
	}
}

// ofRoot has objects of root in a database of MariaDB.
const ofRoot = `CREATE TABLE orders (id int PRIMARY KEY, note text); CREATE TABLE audit (id int);
	INSERT INTO orders VALUES (1, 'CREATE DEFINER=\nCREATE DEFINER=root@localhost');
	CREATE DEFINER=root@localhost TRIGGER log_orders AFTER INSERT ON orders FOR EACH ROW INSERT INTO audit VALUES (NEW.id);
	CREATE DEFINER=root@localhost VIEW notes AS SELECT note FROM orders;
	CREATE DEFINER=root@localhost PROCEDURE clean() DELETE FROM audit;
	CREATE DEFINER=root@localhost EVENT nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM audit;`

// newOfRoot returns a server with that database as "shop" and the empty database "other", and a run
// that has dumped it, and that restores into "other".
func newOfRoot(t *testing.T, options ...string) (*database, *run) {
	t.Helper()
	d := startMariaDB(t, options...)
	d.create("shop")
	d.create("other")
	d.execute("shop", ofRoot)
	d.execute("mysql", "GRANT SELECT ON mysql.proc TO app")
	r := newRun(t, source(d, "shop"), destination(startStore(t)))
	r.succeed("dump.sh")
	r.environment["RESTORE_DATABASE"] = "other"
	return d, r
}

// definers shows the definers of the objects in the database "other".
const definers = `SELECT definer FROM information_schema.views WHERE table_schema = 'other'
	UNION ALL SELECT definer FROM information_schema.triggers WHERE trigger_schema = 'other'
	UNION ALL SELECT definer FROM information_schema.routines WHERE routine_schema = 'other'
	UNION ALL SELECT definer FROM information_schema.events WHERE event_schema = 'other'`

func TestDefinerBecomesTheUser(t *testing.T) {
	d, r := newOfRoot(t)

	output := r.succeed("restore.sh", "load")

	expect.Contains(t, "output", output, "user app becomes the definer of views, triggers, routines and events")
	expect.Equal(t, "definers", "app@%\napp@%\napp@%\napp@%", d.execute("other", definers))
	expect.Equal(t, "rows", d.execute("shop", "SELECT note FROM notes"), d.execute("other", "SELECT note FROM notes"))
	expect.Equal(t, "row of the trigger", "2", d.execute("other", "INSERT INTO orders VALUES (2, ''); SELECT id FROM audit"))
}

// TestAdministratorRestoresDefiners: a server that calls itself another version keeps its own
// rules.
func TestAdministratorRestoresDefiners(t *testing.T) {
	tests := map[string]struct {
		options            []string
		privilege, definer string
	}{
		"SET USER":               {nil, "SET USER", "root@localhost"},
		"SUPER":                  {nil, "SUPER", "root@localhost"},
		"SUPER of MariaDB 11":    {[]string{"--version=11.4.2-MariaDB"}, "SUPER", "app@%"},
		"SET USER of MariaDB 11": {[]string{"--version=11.4.2-MariaDB"}, "SET USER", "root@localhost"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d, r := newOfRoot(t, tt.options...)
			d.execute("mysql", "GRANT "+tt.privilege+" ON *.* TO app")

			r.succeed("restore.sh", "load")

			expect.Equal(t, "definers", strings.TrimSpace(strings.Repeat(tt.definer+"\n", 4)), d.execute("other", definers))
		})
	}
}

// TestFailedRestoreEmptiesMariaDB: statements of MariaDB cannot be rolled back.
func TestFailedRestoreEmptiesMariaDB(t *testing.T) {
	d, r := newOfRoot(t)
	d.execute("mysql", "REVOKE CREATE VIEW ON other.* FROM app")
	const objects = `SELECT (SELECT count(*) FROM information_schema.tables WHERE table_schema = 'other') +
		(SELECT count(*) FROM information_schema.routines WHERE routine_schema = 'other') + (SELECT count(*) FROM information_schema.events WHERE event_schema = 'other')`

	r.fail(11, "ERROR 1142 (42000)", "restore.sh", "load")
	r.fail(11, "database other is empty again", "restore.sh", "load")
	// The server ends the connection of the query for what to drop.
	r.program("mariadb", `if [ -e "$BACKUP_DIR/.end" ]; then rm "$BACKUP_DIR/.end"; exit 1; fi
		`+lookUp(t, "mariadb")+` "$@" || { : >"$BACKUP_DIR/.end"; exit 1; }`)
	r.fail(11, "database other has a part of the dump", "restore.sh", "load")
	d.execute("mysql", "DROP DATABASE other; CREATE DATABASE other")
	r.program("mariadb", "exec "+lookUp(t, "mariadb")+` "$@"`)
	expect.Equal(t, "objects", "0", d.execute("other", objects))

	d.execute("other", "CREATE TABLE mine (id int)")
	r.environment["RESTORE_REPLACE"] = "true"
	_, output, _ := r.script("restore.sh", "load")
	warning, failure := strings.Index(output, "a restore that fails from here on leaves database other"), strings.Index(output, "ERROR 1142")
	if warning < 0 || failure < warning {
		t.Errorf("the restore does not say before it starts what it leaves:\n%s", output)
	}
	expect.Equal(t, "the user's table", "mine", d.execute("other", "SHOW TABLES LIKE 'mine'"))
}

// TestUnreadableRoutineFailsTheDump: a dump without routines is not stored.
func TestUnreadableRoutineFailsTheDump(t *testing.T) {
	d := startMariaDB(t)
	d.create("shop")
	d.execute("shop", ofRoot)
	r := newRun(t, source(d, "shop"), destination(startStore(t)))

	r.fail(11, "insufficient privileges", "dump.sh")
}

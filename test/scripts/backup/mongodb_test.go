// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

// Output of the programs of MongoDB, as their sources have it.
const (
	dumped   = "2026-01-01T00:00:00.000+0000\tdone dumping shop.orders (2 documents)"
	finished = "2026-01-01T00:00:00.000+0000\tfinished restoring other.orders (2 documents, 0 failures)\n"
	restored = "2026-01-01T00:00:00.000+0000\t2 document(s) restored successfully. 0 document(s) failed to restore."
)

// TestMongoDBCommands: no package registry of the tests has the programs of MongoDB, so the test
// compares the commands.
func TestMongoDBCommands(t *testing.T) {
	d := &database{kind: "mongodb", port: 27017}
	s := startStore(t)
	r := newRun(t, source(d, "shop"), destination(s))
	r.program("mongodump", "cat $BACKUP_SECRETS_DIR/login >"+filepath.Join(r.dir, ".config")+"; printf archive >$BACKUP_DIR/.part; echo '"+dumped+"' >&2")
	r.program("mongorestore", "printf '"+finished+restored+"\\n' >&2")

	r.succeed("dump.sh")
	login, err := os.ReadFile(filepath.Join(r.dir, ".config"))
	expect.NoError(t, err)
	r.succeed("upload.sh")
	r.succeed("restore.sh", "fetch")
	r.fail(11, "a restore into database shop adds documents that were deleted since", "restore.sh", "load")
	r.environment["RESTORE_DATABASE"] = "other"
	r.succeed("restore.sh", "load")
	r.environment["RESTORE_REPLACE"], r.environment["RESTORE_DATABASE"] = "true", "shop"
	r.succeed("restore.sh", "load")

	const connection = "--config=%s/secrets/login --host=127.0.0.1 --port=27017 --username=app --authenticationDatabase=admin "
	dump := "mongodump " + fmt.Sprintf(connection, r.root) + "--db=shop --archive=" + r.dir + "/.part --gzip\n"
	restore := "mongorestore " + fmt.Sprintf(connection, r.root) + "--archive=" + filepath.Join(r.dir, r.dumps()[0]) + " --gzip --nsInclude=shop.*"
	for _, want := range []string{dump, restore + " --nsFrom=shop.* --nsTo=other.*\n", restore + " --nsFrom=shop.* --nsTo=shop.* --drop\n"} {
		if !strings.Contains(r.arguments(), want) {
			t.Errorf("commands are\n%s\nwant\n%s", r.arguments(), want)
		}
	}
	if want := `password: "p\"a\\s#w': $x%{}"` + "\n"; string(login) != want {
		t.Errorf("the login is %s, want %s", login, want)
	}
}

// TestMongoDBRestoreFails: mongorestore ends with success when it has loaded nothing, and when the
// database has refused documents.
func TestMongoDBRestoreFails(t *testing.T) {
	const none = "0 document(s) restored successfully. 0 document(s) failed to restore."
	tests := map[string]struct{ output, message string }{
		"no collection":     {none + "\n", "nothing was loaded: the dump has no collections of database shop"},
		"refused documents": {finished + "12 document(s) restored successfully. 10 document(s) failed to restore.\n", "database other refused documents"},
		"no summary":        {finished, "database other refused documents"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := startStore(t)
			r := newRun(t, source(&database{kind: "mongodb", port: 27017}, "shop"), destination(s))
			r.program("mongodump", "printf archive >$BACKUP_DIR/.part; echo '"+dumped+"' >&2")
			r.succeed("dump.sh")
			r.program("mongorestore", "printf '"+test.output+"' >&2")
			r.environment["RESTORE_DATABASE"] = "other"

			r.fail(11, test.message, "restore.sh", "load")
		})
	}
}

func TestMongoDBDumpOfMissingDatabase(t *testing.T) {
	r := newRun(t, source(&database{kind: "mongodb", port: 27017}, "shop"), destination(startStore(t)))
	r.program("mongodump", "printf archive >$BACKUP_DIR/.part")

	r.fail(10, "database shop does not exist, or has no collections", "dump.sh")
}

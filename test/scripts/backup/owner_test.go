// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"slices"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

// TestDumpsOfAnotherBackupStay: a Backup of the same name in another cluster may use the same
// prefix.
func TestDumpsOfAnotherBackupStay(t *testing.T) {
	const old = "team/db/shop.orders-20200101T000000Z.dump"
	tests := map[string]struct {
		// record is the bucket's record about the owner; "" means that uid-1 has made a backup.
		record       string
		namespace    string
		takeOverFrom string
		refused      bool
	}{
		"another cluster":                   {namespace: "namespace-2", refused: true},
		"an unknown namespace":              {namespace: "", refused: true},
		"a record without namespace":        {record: "uid-1\n", namespace: "namespace-1", refused: true},
		"a deleted Backup":                  {namespace: "namespace-1"},
		"a named owner":                     {namespace: "namespace-2", takeOverFrom: "uid-1"},
		"an owner that is not named":        {namespace: "namespace-2", takeOverFrom: "uid-3", refused: true},
		"an old record with a named owner":  {record: "uid-1\n", namespace: "namespace-1", takeOverFrom: "uid-1"},
		"an owner like a pattern":           {record: "*\n*\n", namespace: "namespace-1", takeOverFrom: "uid-1", refused: true},
		"its own record without namespace":  {record: "uid-2\n", namespace: "namespace-1"},
		"its own record of another cluster": {record: "uid-2\nnamespace-2\n", namespace: "namespace-1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := startStore(t)
			first, _ := newUpload(t, s)
			first.succeed("upload.sh")
			first.succeed("upload.sh") // Its own dumps.
			if test.record != "" {
				s.write("team/db/shop.orders.owner", test.record)
			}
			s.put(old)
			before := s.files()
			second, dump := newUpload(t, s)
			second.environment["BACKUP_UID"] = "uid-2"
			second.environment["BACKUP_NAMESPACE_UID"], second.environment["BACKUP_TAKE_OVER_FROM"] = test.namespace, test.takeOverFrom

			if test.refused {
				second.fail(25, "belong to another Backup, which has the UID", "upload.sh")
				expect.Equal(t, "files", strings.Join(before, "\n"), strings.Join(s.files(), "\n"))
				return
			}
			second.succeed("upload.sh")
			second.succeed("upload.sh")

			if after := s.files(); !slices.Contains(after, "team/db/"+dump) || slices.Contains(after, old) {
				t.Errorf("the bucket has %q, want the new dump, and not the old one", after)
			}
			expect.Equal(t, "record", "uid-2\n"+test.namespace+"\n", s.read("team/db/shop.orders.owner"))
			first.environment["BACKUP_NAMESPACE_UID"] = "namespace-of-the-first"
			first.fail(25, "belong to another Backup, which has the UID uid-2", "upload.sh")
		})
	}
}

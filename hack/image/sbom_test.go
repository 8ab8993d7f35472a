// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
	"github.com/spdx/tools-golang/spdxlib"
)

// The test uses the program of this module, because the binary of a test does not list its modules.
func TestSBOM(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "image")
	command(t, ".", nil, "go", "build", "-trimpath", "-o", binary, ".")
	p, err := readProgram("v1.2.3", binary)
	must(t, err)
	p.created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	replaced := &debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{
		Path: "example.com/fork", Version: "v0.1.0+incompatible", Sum: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
	}}
	want := []string{p.info.Main.Path + " v1.2.3", "stdlib " + strings.TrimPrefix(p.info.GoVersion, "go")}
	for _, module := range append(slices.Clone(p.info.Deps), replaced.Replace) {
		want = append(want, module.Path+" "+module.Version)
	}

	content, err := p.sbom("program-v1.2.3-linux-amd64", replaced)
	must(t, err)

	document := &spdx.Document{}
	must(t, json.ReadInto(bytes.NewReader(content), document))
	if err := spdxlib.ValidateDocument(document); err != nil {
		t.Errorf("the document is not valid: %v", err)
	}
	if document.SPDXVersion != "SPDX-2.3" || document.DataLicense != "CC0-1.0" || document.CreationInfo.Created != commitTime {
		t.Errorf("version %s, license %s, created %s", document.SPDXVersion, document.DataLicense, document.CreationInfo.Created)
	}
	described, err := spdxlib.GetDescribedPackageIDs(document)
	if err != nil || len(described) != 1 || described[0] != document.Packages[0].PackageSPDXIdentifier {
		t.Errorf("described packages = %v (%v), want the first package", described, err)
	}
	var got []string
	valid, seen := regexp.MustCompile(`^[a-zA-Z0-9.-]+$`), map[common.ElementID]bool{}
	for i, found := range document.Packages {
		got = append(got, found.PackageName+" "+found.PackageVersion)
		id := found.PackageSPDXIdentifier
		if !valid.MatchString(string(id)) || seen[id] {
			t.Errorf("identifier %s is not valid or not unique", id)
		}
		seen[id] = true
		if found.PackageDownloadLocation == "" || found.FilesAnalyzed || found.PackageLicenseConcluded == "" {
			t.Errorf("%s lacks a mandatory field: %+v", id, found)
		}
		// The second is the standard library, which has no checksum.
		if i != 1 && len(found.PackageChecksums) != 1 {
			t.Errorf("%s has %d checksums, want 1", id, len(found.PackageChecksums))
		}
	}
	if !slices.Equal(got, want) || len(p.info.Deps) == 0 {
		t.Errorf("packages = %q, want %q", got, want)
	}
	fork := document.Packages[len(document.Packages)-1]
	purl := fork.PackageExternalReferences[0].Locator
	if purl != "pkg:golang/example.com/fork@v0.1.0%2Bincompatible" || fork.PackageChecksums[0].Value != strings.Repeat("0", 64) {
		t.Errorf("the last package is %s with the checksum %s", purl, fork.PackageChecksums[0].Value)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package sbom

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
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

// document returns the command of this module and its bill of materials. The binary of a test does not list its modules.
func document(t *testing.T) (binary, content []byte) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", file, "github.com/example/demoapp-controller/hack/image")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	binary, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content, err = Write(binary, Options{
		Name: "program-v1.2.3-linux-amd64", Version: "v1.2.3", License: "Apache-2.0",
		Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Shipped: []*debug.Module{{Path: "example.com/data", Version: "v0.1.0+incompatible"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return binary, content
}

func TestDocumentIsValid(t *testing.T) {
	_, content := document(t)

	read := &spdx.Document{}
	if err := json.ReadInto(bytes.NewReader(content), read); err != nil {
		t.Fatal(err)
	}

	if err := spdxlib.ValidateDocument(read); err != nil {
		t.Errorf("the document is not valid: %v", err)
	}
	if read.SPDXVersion != "SPDX-2.3" || read.DataLicense != "CC0-1.0" || read.CreationInfo.Created != "2026-01-02T03:04:05Z" {
		t.Errorf("version %s, license %s, created %s", read.SPDXVersion, read.DataLicense, read.CreationInfo.Created)
	}
	described, err := spdxlib.GetDescribedPackageIDs(read)
	if err != nil || len(described) != 1 || described[0] != read.Packages[0].PackageSPDXIdentifier {
		t.Errorf("described packages = %v (%v), want the first package", described, err)
	}
	valid, seen := regexp.MustCompile(`^[a-zA-Z0-9.-]+$`), map[common.ElementID]bool{}
	for _, p := range read.Packages {
		id := p.PackageSPDXIdentifier
		if !valid.MatchString(string(id)) || seen[id] {
			t.Errorf("identifier %s is not valid or not unique", id)
		}
		seen[id] = true
		if p.PackageName == "" || p.PackageDownloadLocation == "" || p.FilesAnalyzed || p.PackageLicenseConcluded == "" {
			t.Errorf("%s lacks a mandatory field: %+v", id, p)
		}
	}
}

func TestDocumentHasAllModules(t *testing.T) {
	binary, content := document(t)
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		info.Main.Path + " v1.2.3", "stdlib " + strings.TrimPrefix(info.GoVersion, "go"), "example.com/data v0.1.0+incompatible",
	}
	for _, module := range info.Deps {
		want = append(want, module.Path+" "+module.Version)
	}

	read := &spdx.Document{}
	if err := json.ReadInto(bytes.NewReader(content), read); err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, p := range read.Packages {
		got = append(got, p.PackageName+" "+p.PackageVersion)
		if slices.ContainsFunc(info.Deps, func(m *debug.Module) bool { return m.Path == p.PackageName }) && len(p.PackageChecksums) != 1 {
			t.Errorf("%s has %d checksums, want 1", p.PackageName, len(p.PackageChecksums))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) || len(info.Deps) == 0 {
		t.Errorf("packages = %q, want %q", got, want)
	}
	if purl := `"pkg:golang/example.com/data@v0.1.0%2Bincompatible"`; !bytes.Contains(content, []byte(purl)) {
		t.Errorf("the document lacks %s", purl)
	}
}

func TestSameBinaryGivesSameDocument(t *testing.T) {
	_, first := document(t)

	_, second := document(t)

	if !bytes.Equal(first, second) {
		t.Error("two documents of one binary differ")
	}
}

func TestModulePackageOfReplacement(t *testing.T) {
	p := modulePackage(&debug.Module{Path: "example.com/a", Version: "v1.0.0", Replace: &debug.Module{
		Path: "example.com/fork", Version: "v1.0.1", Sum: "h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
	}})

	if p.PackageName != "example.com/fork" || p.PackageVersion != "v1.0.1" {
		t.Errorf("package %s %s, want the replacement", p.PackageName, p.PackageVersion)
	}
	if len(p.PackageChecksums) != 1 || p.PackageChecksums[0].Value != strings.Repeat("0", 64) {
		t.Errorf("checksums = %v", p.PackageChecksums)
	}
}

func TestWriteRefusesOtherFiles(t *testing.T) {
	_, err := Write([]byte("#!/bin/sh\n"), Options{Name: "script"})

	if err == nil || !strings.Contains(err.Error(), "read the build information") {
		t.Errorf("error = %v", err)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package sbom writes the bill of materials of a Go binary as SPDX 2.3 in JSON. Everything in it comes from the binary:
// the modules and their checksums, the version of Go, the commit and its time. So the same binary always gives the same
// document.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// MediaType is the media type of a document.
const MediaType = "application/spdx+json"

// noAssertion is the value of SPDX for what is not known.
const noAssertion = "NOASSERTION"

// Options describe what the binary does not say itself.
type Options struct {
	// Name is the name of the document, for example that of the binary and its platform.
	Name string
	// Version is the version of the main module. If it is empty, the version is that of the build information.
	Version string
	// License is the SPDX expression of the license of the main module.
	License string
	// Created is the time of the document. It has to be fixed, for example the time of the commit.
	Created time.Time
	// Shipped are modules whose data is shipped with the binary, but not linked.
	Shipped []*debug.Module
}

// Write returns the bill of materials of a binary.
func Write(binary []byte, options Options) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read the build information of the binary: %w", err)
	}
	document := documentOf(info, sha256.Sum256(binary), options)
	var out bytes.Buffer
	if err := json.Write(document, &out, json.Indent("  ")); err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

func documentOf(info *debug.BuildInfo, digest [sha256.Size]byte, options Options) *spdx.Document {
	main := mainPackage(info, digest, options)
	document := &spdx.Document{
		SPDXVersion:    spdx.Version,
		DataLicense:    spdx.DataLicense,
		SPDXIdentifier: "DOCUMENT",
		DocumentName:   options.Name,
		// The namespace has to be unique for each document. The digest of the binary makes it so.
		DocumentNamespace: fmt.Sprintf("https://%s/spdx/%s-%x", info.Main.Path, options.Name, digest),
		CreationInfo: &spdx.CreationInfo{
			Created: options.Created.UTC().Format(time.RFC3339),
			Creators: []common.Creator{
				{CreatorType: "Organization", Creator: "The DemoApp Controller Authors"},
				{CreatorType: "Tool", Creator: info.Main.Path + "/hack/image"},
			},
		},
		Packages:      []*spdx.Package{main},
		Relationships: []*spdx.Relationship{relation("DOCUMENT", common.TypeRelationshipDescribe, main.PackageSPDXIdentifier)},
	}
	add := func(p *spdx.Package) {
		document.Packages = append(document.Packages, p)
		document.Relationships = append(document.Relationships,
			relation(main.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p.PackageSPDXIdentifier))
	}
	add(standardLibrary(info.GoVersion))
	for _, module := range append(append([]*debug.Module{}, info.Deps...), options.Shipped...) {
		add(modulePackage(module))
	}
	return document
}

func relation(from common.ElementID, kind string, to common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{
		RefA: common.MakeDocElementID("", string(from)), Relationship: kind, RefB: common.MakeDocElementID("", string(to)),
	}
}

// mainPackage returns the package of the binary itself.
func mainPackage(info *debug.BuildInfo, digest [sha256.Size]byte, options Options) *spdx.Package {
	version := options.Version
	if version == "" {
		version = info.Main.Version
	}
	p := newPackage(info.Main.Path, version)
	p.PrimaryPackagePurpose = "APPLICATION"
	p.PackageLicenseDeclared, p.PackageLicenseConcluded = options.License, options.License
	p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(digest[:])}}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	if revision := settings["vcs.revision"]; revision != "" && settings["vcs.modified"] != "true" {
		p.PackageDownloadLocation = "git+https://" + info.Main.Path + "@" + revision
	}
	p.PackageSourceInfo = fmt.Sprintf("built by %s for %s/%s", info.GoVersion, settings["GOOS"], settings["GOARCH"])
	return p
}

// standardLibrary returns the package of the standard library, under the name that vulnerability databases use.
func standardLibrary(goVersion string) *spdx.Package {
	p := newPackage("stdlib", strings.TrimPrefix(goVersion, "go"))
	p.PackageLicenseDeclared, p.PackageLicenseConcluded = "BSD-3-Clause", "BSD-3-Clause"
	return p
}

// modulePackage returns the package of a dependency. The licenses of dependencies are not known here.
func modulePackage(module *debug.Module) *spdx.Package {
	if module.Replace != nil {
		module = module.Replace
	}
	p := newPackage(module.Path, module.Version)
	// The checksum of go.sum is a SHA-256 over the files of the module, in base64. Other tools write it in this way, too.
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:")); err == nil && len(sum) == sha256.Size {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum)}}
		p.PackageComment = "go.sum: " + module.Sum
	}
	return p
}

// invalidInID matches what SPDX forbids in identifiers.
var invalidInID = regexp.MustCompile(`[^a-zA-Z0-9.-]+`)

func newPackage(path, version string) *spdx.Package {
	return &spdx.Package{
		PackageName:             path,
		PackageSPDXIdentifier:   common.ElementID(invalidInID.ReplaceAllString("Package-"+path+"-"+version, "-")),
		PackageVersion:          version,
		PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared:  noAssertion,
		PackageCopyrightText:    noAssertion,
		PackageSupplier:         &common.Supplier{Supplier: noAssertion},
		PrimaryPackagePurpose:   "LIBRARY",
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager,
			RefType:  common.TypePackageManagerPURL,
			Locator:  "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B"),
		}},
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// sbomType is the media type of a bill of materials.
const sbomType = "application/spdx+json"

// noAssertion is the value of SPDX for unknown facts.
const noAssertion = "NOASSERTION"

// sbom returns the bill of materials of a program as SPDX 2.3 in JSON. Everything in it comes from
// the binary, so the same binary always gives the same document. Name is the name of the document.
// Shipped are modules whose data is shipped with the program, but not linked.
func (p program) sbom(name string, shipped ...*debug.Module) ([]byte, error) {
	digest := fmt.Sprintf("%x", sha256.Sum256(p.content))
	operator := newPackage(p.info.Main.Path, p.version)
	operator.PrimaryPackagePurpose = "APPLICATION"
	operator.PackageLicenseDeclared, operator.PackageLicenseConcluded = licenses, licenses
	operator.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
	operator.PackageSourceInfo = fmt.Sprintf("built by %s for %s/%s", p.info.GoVersion, p.settings["GOOS"], p.settings["GOARCH"])
	if p.revision != "" && !p.modified() {
		operator.PackageDownloadLocation = "git+https://" + p.info.Main.Path + "@" + p.revision
	}
	// Vulnerability databases know the standard library by this name.
	library := newPackage("stdlib", strings.TrimPrefix(p.info.GoVersion, "go"))
	library.PackageLicenseDeclared, library.PackageLicenseConcluded = "BSD-3-Clause", "BSD-3-Clause"
	packages := []*spdx.Package{operator, library}
	for _, module := range slices.Concat(p.info.Deps, shipped) {
		packages = append(packages, modulePackage(module))
	}
	var relationships []*spdx.Relationship
	for i, described := range packages {
		from, kind := operator.PackageSPDXIdentifier, common.TypeRelationshipDependsOn
		if i == 0 {
			from, kind = "DOCUMENT", common.TypeRelationshipDescribe
		}
		relationships = append(relationships, &spdx.Relationship{
			RefA: common.DocElementID{ElementRefID: from}, Relationship: kind,
			RefB: common.DocElementID{ElementRefID: described.PackageSPDXIdentifier},
		})
	}
	var out bytes.Buffer
	err := json.Write(&spdx.Document{
		SPDXVersion:    spdx.Version,
		DataLicense:    spdx.DataLicense,
		SPDXIdentifier: "DOCUMENT",
		DocumentName:   name,
		// The namespace has to be unique for each document. The digest of the binary makes it so.
		DocumentNamespace: "https://" + p.info.Main.Path + "/spdx/" + name + "-" + digest,
		CreationInfo: &spdx.CreationInfo{
			Created: p.created.Format(time.RFC3339),
			Creators: []common.Creator{
				{CreatorType: "Organization", Creator: "The DemoApp Controller Authors"},
				{CreatorType: "Tool", Creator: p.info.Main.Path + "/hack/image"},
			},
		},
		Packages:      packages,
		Relationships: relationships,
	}, &out, json.Indent("  "))
	if err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

// modulePackage returns the package of a dependency. The licenses of dependencies are not known
// here.
func modulePackage(module *debug.Module) *spdx.Package {
	if module.Replace != nil {
		module = module.Replace
	}
	p := newPackage(module.Path, module.Version)
	// The checksum of go.sum is a SHA-256 over the files of the module, in base64. Other tools
	// write it in this way, too.
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(module.Sum, "h1:"))
	if err == nil && len(sum) == sha256.Size {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(sum)}}
		p.PackageComment = "go.sum: " + module.Sum
	}
	return p
}

// invalidInID matches characters that SPDX forbids in identifiers.
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

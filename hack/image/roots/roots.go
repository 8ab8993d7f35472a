// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package roots has the root certificates of the image. They are those that Mozilla trusts for servers, from a Go module
// that the Go project updates. The version in go.mod selects them:
//
//	go -C hack/image get golang.org/x/crypto/x509roots/fallback@latest
package roots

import (
	"bytes"
	"encoding/pem"
	"runtime/debug"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// module is the path of the module with the certificates.
const module = "golang.org/x/crypto/x509roots/fallback"

// PEM returns the certificates. Roots with a constraint, such as a date after which Mozilla trusts no new certificate, are
// left out, because PEM has no place for the constraint.
func PEM() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// Modules returns the module with the certificates, if the build information of this program has it.
func Modules() []*debug.Module {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, dependency := range info.Deps {
		if dependency.Path == module {
			return []*debug.Module{dependency}
		}
	}
	return nil
}

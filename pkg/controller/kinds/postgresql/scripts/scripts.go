// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scripts has the scripts that the pods of a PostgreSQL mount.
package scripts

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"io/fs"
)

//go:embed *.conf *.sh *.sql
var embedded embed.FS

// Files are the constant files of the ConfigMap, by name. Environment variables and further files
// have the differences between databases.
var Files = read()

// Digest is a digest of Files. It is an annotation of the pods, so that pods with other scripts have another
// template.
var Digest = digestOf(Files)

func read() map[string]string {
	names, _ := fs.Glob(embedded, "*") // The pattern is valid.
	files := map[string]string{}
	for _, name := range names {
		data, err := embedded.ReadFile(name)
		if err != nil {
			panic(err) // The files are part of the binary.
		}
		files[name] = string(data)
	}
	return files
}

func digestOf(files map[string]string) string {
	encoded, _ := json.Marshal(files) // A map of texts is always encoded, in the order of its keys.
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:8])
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package repository finds the files of the repository for tests.
package repository

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// modulePath is the first line of the go.mod in the root of the repository.
const modulePath = "module github.com/example/demoapp-controller"

// Root returns the root of the repository that the working folder, which go test sets to the
// package's, is in.
func Root() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("find the repository: %w", err)
		}
		if first, _, _ := bytes.Cut(content, []byte("\n")); string(first) == modulePath {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no folder above %s has its go.mod", start)
		}
	}
}

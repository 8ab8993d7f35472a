// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "rbac:", err)
		os.Exit(1)
	}
}

// run generates all files below the root of the repository.
func run(root string) error {
	sources, err := readSources(root)
	if err != nil {
		return err
	}
	for _, dir := range []string{namespacedDir, impersonatingDir, chartDir} {
		if err := os.RemoveAll(filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	for name, content := range generate(sources) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // The folders are public.
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil { //nolint:gosec // The files are public.
			return err
		}
	}
	if err := writeCode(root, sources); err != nil {
		return err
	}
	page := filepath.Join(root, docsPage)
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	changed, err := insertTables(string(text), sources)
	if err != nil {
		return fmt.Errorf("%s: %w", docsPage, err)
	}
	return os.WriteFile(page, []byte(changed), 0o644) //nolint:gosec // The file is public.
}

// writeCode writes codeFile.
func writeCode(root string, s sources) error {
	boilerplate, err := os.ReadFile(filepath.Join(root, "hack", "boilerplate.go.txt"))
	if err != nil {
		return err
	}
	code, err := s.code(string(boilerplate))
	if err != nil {
		return fmt.Errorf("%s: %w", codeFile, err)
	}
	return os.WriteFile(filepath.Join(root, codeFile), []byte(code), 0o644) //nolint:gosec // The file is public.
}

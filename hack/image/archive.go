// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"testing/fstest"
	"time"
)

// archive returns a tar archive that depends only on the names, modes and contents of files, and on
// a time. Owner and group are 0.
func archive(modified time.Time, files fstest.MapFS) ([]byte, error) {
	tree := fstest.MapFS{}
	for name, file := range files {
		tree[name] = &fstest.MapFile{Data: file.Data, Mode: file.Mode, ModTime: modified}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			tree[dir] = &fstest.MapFile{Mode: fs.ModeDir | 0o755, ModTime: modified}
		}
	}
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	if err := errors.Join(writer.AddFS(tree), writer.Close()); err != nil {
		return nil, fmt.Errorf("write an archive: %w", err)
	}
	return out.Bytes(), nil
}

// readTree returns the files below a directory, with a prefix before their names and the mode 0644.
func readTree(directory, prefix string) (fstest.MapFS, error) {
	files, tree := fstest.MapFS{}, os.DirFS(directory)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		files[path.Join(prefix, name)] = &fstest.MapFile{Data: content, Mode: 0o644}
		return err
	})
	return files, err
}

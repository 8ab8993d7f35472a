// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Package archive writes tar archives that depend only on the names and contents of their files.
package archive

import (
	"archive/tar"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// File is one regular file of an archive.
type File struct {
	// Name is the path in the archive, with slashes and without a leading slash.
	Name    string
	Mode    fs.FileMode
	Content []byte
}

// Write writes files in the order of their names, each after the directories that hold it. Owner and group are 0. All
// entries have the given time.
func Write(w io.Writer, modified time.Time, files ...File) error {
	archive := tar.NewWriter(w)
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	written := map[string]bool{".": true}
	for _, file := range files {
		if err := writeDirectories(archive, modified, path.Dir(file.Name), written); err != nil {
			return err
		}
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: file.Name, Mode: int64(file.Mode.Perm()), Size: int64(len(file.Content)),
			ModTime: modified, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("archive %s: %w", file.Name, err)
		}
		if _, err := archive.Write(file.Content); err != nil {
			return fmt.Errorf("archive %s: %w", file.Name, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("close the archive: %w", err)
	}
	return nil
}

func writeDirectories(archive *tar.Writer, modified time.Time, name string, written map[string]bool) error {
	if written[name] {
		return nil
	}
	if err := writeDirectories(archive, modified, path.Dir(name), written); err != nil {
		return err
	}
	written[name] = true
	header := &tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, ModTime: modified, Format: tar.FormatPAX}
	if err := archive.WriteHeader(header); err != nil {
		return fmt.Errorf("archive the directory %s: %w", name, err)
	}
	return nil
}

// ReadTree returns the regular files below a directory of a file system. Files get the mode 0644, or 0755 if the owner may
// execute them. Their names begin with prefix.
func ReadTree(tree fs.FS, prefix string) ([]File, error) {
	var files []File
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s: is not a regular file", name)
		}
		mode := fs.FileMode(0o644)
		if info.Mode()&0o100 != 0 {
			mode = 0o755
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		files = append(files, File{Name: path.Join(prefix, name), Mode: mode, Content: content})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the files: %w", err)
	}
	return files, nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"helm.sh/helm/v4/pkg/chart/loader/archive"
	"helm.sh/helm/v4/pkg/ignore"
)

// maxNestedLinks bounds how many links to directories may lead to one file. Links
// that lead in a circle exceed it.
const maxNestedLinks = 8

// utf8BOM is the byte order mark that Helm removes from the beginning of files.
var utf8BOM = []byte{0xEF, 0xBB, 0xBF}

// reader collects the files of a chart, as Helm's loader of directories does.
type reader struct {
	fsys  fs.FS
	rules *ignore.Rules
	files []*archive.BufferedFile
	// budget is the number of bytes that the rest of the chart may have.
	budget int64
}

// readFiles returns the files of the chart at the root of fsys. Helm's limit on the
// size of a chart applies.
func readFiles(fsys fs.FS) ([]*archive.BufferedFile, error) {
	rules, err := ignoreRules(fsys)
	if err != nil {
		return nil, err
	}
	info, err := fs.Stat(fsys, ".")
	if err != nil {
		return nil, err
	}
	reader := &reader{fsys: fsys, rules: rules, budget: archive.MaxDecompressedChartSize}
	if err := reader.read(".", info, 0); err != nil {
		return nil, err
	}
	return reader.files, nil
}

// read collects a file, or the files of a directory. links is the number of symbolic links
// on the way.
func (r *reader) read(name string, info fs.FileInfo, links int) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := r.follow(name)
		if err != nil {
			return err
		}
		if links++; links > maxNestedLinks {
			return fmt.Errorf("%w: symbolic link %s leads in a circle, or through more than %d other links",
				ErrInvalid, name, maxNestedLinks)
		}
		info = target
	}
	switch {
	case name != "." && r.rules.Ignore(name, info):
		return nil
	case info.IsDir():
		return r.readDir(name, links)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is neither a file nor a directory: remove it, or name it in %s",
			ErrInvalid, name, ignore.HelmIgnore)
	case info.Size() > r.budget:
		return r.tooLarge()
	}
	data, err := fs.ReadFile(r.fsys, name)
	if err != nil {
		return err
	}
	if r.budget -= int64(len(data)); r.budget < 0 {
		return r.tooLarge()
	}
	r.files = append(r.files, &archive.BufferedFile{Name: name, Data: bytes.TrimPrefix(data, utf8BOM)})
	return nil
}

func (r *reader) readDir(name string, links int) error {
	entries, err := fs.ReadDir(r.fsys, name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := r.read(path.Join(name, entry.Name()), info, links); err != nil {
			return err
		}
	}
	return nil
}

// follow returns the target of a link. Like Helm, it follows a link before it checks
// whether the link is ignored.
func (r *reader) follow(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(r.fsys, name)
	if err != nil {
		return nil, fmt.Errorf("%w: symbolic link %s cannot be followed: %w", ErrInvalid, name, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		return nil, fmt.Errorf("%w: symbolic link %s cannot be followed in this file system: replace it by its target",
			ErrInvalid, name)
	}
	return info, nil
}

func (r *reader) tooLarge() error {
	return fmt.Errorf("%w: its files exceed %d bytes", ErrInvalid, archive.MaxDecompressedChartSize)
}

func ignoreRules(fsys fs.FS) (*ignore.Rules, error) {
	rules := ignore.Empty()
	data, err := fs.ReadFile(fsys, ignore.HelmIgnore)
	switch {
	case err == nil:
		if rules, err = ignore.Parse(bytes.NewReader(data)); err != nil {
			return nil, fmt.Errorf("%s: %w", ignore.HelmIgnore, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	rules.AddDefaults()
	return rules, nil
}

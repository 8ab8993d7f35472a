// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ownFolder is not renamed. A second run then recognizes a renamed tree.
const ownFolder = "hack/rename/"

func main() {
	var names Names
	flag.StringVar(&names.Module, "module", "", "module path, such as github.com/acme/operator")
	flag.StringVar(&names.Name, "name", "", "name of the program, such as acme-operator")
	flag.StringVar(&names.Group, "group", "", "API group of DemoApp, such as apps.acme.io")
	flag.StringVar(&names.Namespace, "namespace", "", "namespace of the operator, such as acme-system")
	flag.Parse()
	if err := rename(context.Background(), ".", names); err != nil {
		fmt.Fprintln(os.Stderr, "rename:", err)
		os.Exit(1)
	}
}

// rename renames the tracked files of the repository in root. Nothing changes if a name is
// invalid, or if the work tree has uncommitted changes, which git could not bring back.
func rename(ctx context.Context, root string, names Names) error {
	replacer, err := names.replacer()
	if err != nil {
		return err
	}
	if module, err := os.ReadFile(filepath.Join(root, "go.mod")); err != nil {
		return err
	} else if !bytes.HasPrefix(module, []byte("module "+current.Module+"\n")) {
		return fmt.Errorf("go.mod does not begin with %q: rename the original tree, once", "module "+current.Module)
	}
	if changes, err := git(ctx, root, "status", "--porcelain"); err != nil {
		return err
	} else if changes != "" {
		return errors.New("there are uncommitted changes: commit or remove them first")
	}
	tracked, err := git(ctx, root, "ls-files", "-z")
	if err != nil {
		return err
	}
	for _, file := range strings.Split(strings.TrimRight(tracked, "\x00"), "\x00") {
		if strings.HasPrefix(file, ownFolder) {
			continue
		}
		if err := renameFile(ctx, root, file, replacer); err != nil {
			return err
		}
	}
	return nil
}

// renameFile renames a file and replaces the names in its content. Files that are not text keep their content.
func renameFile(ctx context.Context, root, file string, replacer *strings.Replacer) error {
	path := filepath.Join(root, file)
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().IsRegular() {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if renamed := replacer.Replace(string(content)); !bytes.ContainsRune(content, 0) && renamed != string(content) {
			if err := os.WriteFile(path, []byte(renamed), info.Mode().Perm()); err != nil { //nolint:gosec // git lists the file.
				return err
			}
		}
	}
	target := replacer.Replace(file)
	if target == file {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(filepath.Join(root, target)), 0o755); err != nil { //nolint:gosec // Files of a repository are public.
		return err
	}
	if _, err := git(ctx, root, "mv", file, target); err != nil {
		return err
	}
	for folder := filepath.Dir(path); os.Remove(folder) == nil; folder = filepath.Dir(folder) {
		continue // Git does not track folders, and leaves those that became empty.
	}
	return nil
}

// git returns the output of a command of git in the folder dir.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", slices.Concat([]string{"-C", dir}, args)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(output), nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing/fstest"
)

// options are the flags of all commands.
type options struct {
	version, tag, image, output, repository, manifest, chart, license string
	binaries, plugins                                                 []string
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	command := "none"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	o, flags := options{}, flag.NewFlagSet("image "+command, flag.ExitOnError)
	flags.StringVar(&o.version, "version", "", "version of a release; empty: the version of the binaries")
	flags.StringVar(&o.tag, "tag", "", "name and tag of the image in archives, or in the registry of a push")
	flags.StringVar(&o.image, "image", "", `directory that "image pack" wrote`)
	flags.StringVar(&o.output, "output", "", "directory that is replaced")
	flags.StringVar(&o.repository, "repository", "", "repository of the image of a release in its registry")
	flags.StringVar(&o.manifest, "manifest", "", "file with all manifests")
	flags.StringVar(&o.chart, "chart", "", "directory of the Helm chart")
	flags.StringVar(&o.license, "license", "", "file with the license")
	flags.Func("plugin", "binary of the kubectl plugin for a platform; may be repeated", func(path string) error {
		o.plugins = append(o.plugins, path)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.binaries = flags.Args()
	switch command {
	case "certificates":
		_, err := os.Stdout.Write(rootCertificates())
		return err
	case "pack":
		return o.pack()
	case "push":
		return o.push(ctx)
	case "release":
		return o.release()
	default:
		return fmt.Errorf("the command is %s, not pack, push, release or certificates", command)
	}
}

// replaceFiles replaces a directory with files.
func replaceFiles(directory string, files map[string][]byte) error {
	tree := fstest.MapFS{}
	for name, content := range files {
		tree[name] = &fstest.MapFile{Data: content}
	}
	return errors.Join(os.RemoveAll(directory), os.CopyFS(directory, tree))
}

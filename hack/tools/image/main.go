// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// user is an arbitrary number other than 0, as "runAsNonRoot" of the restricted profile demands. The image has no
// /etc/passwd.
const user = "65532:65532"

func main() {
	binary := flag.String("binary", "", "static Linux binary to pack")
	reference := flag.String("tag", "", "name and tag of the image")
	output := flag.String("output", "", "tarball to write")
	flag.Parse()

	digest, err := pack(*binary, *reference, *output)
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Printf("%s: %s@%s\n", *output, *reference, digest)
}

// pack writes the image and returns its digest.
func pack(binary, reference, output string) (v1.Hash, error) {
	tag, err := name.NewTag(reference)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("tag: %w", err)
	}
	image, err := imageOf(binary)
	if err != nil {
		return v1.Hash{}, err
	}
	if err := tarball.WriteToFile(output, tag, image); err != nil {
		return v1.Hash{}, fmt.Errorf("write %s: %w", output, err)
	}
	return image.Digest()
}

func imageOf(binary string) (v1.Image, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("read the binary: %w", err)
	}
	architecture, err := architectureOf(content)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", binary, err)
	}
	file := "/" + filepath.Base(binary)
	layer, err := layerOf(file, content)
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, fmt.Errorf("append the layer: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", architecture
	config.Config = v1.Config{
		Entrypoint: []string{file},
		User:       user,
		WorkingDir: "/",
		Labels:     map[string]string{"org.opencontainers.image.licenses": "Apache-2.0"},
	}
	image, err = mutate.ConfigFile(image, config)
	if err != nil {
		return nil, fmt.Errorf("set the configuration: %w", err)
	}
	return image, nil
}

// layerOf returns a layer with one executable file. Owner and time are fixed, so
// that the digest depends on the content alone.
func layerOf(file string, content []byte) (v1.Layer, error) {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: file[1:], Mode: 0o555, Size: int64(len(content)), Format: tar.FormatPAX}
	if err := w.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if _, err := w.Write(content); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
}

// architectureOf returns the Go name of the architecture that a binary is for. It
// refuses a binary that would not start in an empty image.
func architectureOf(content []byte) (string, error) {
	binary, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return "", fmt.Errorf("not a Linux binary (build it with GOOS=linux): %w", err)
	}
	for _, program := range binary.Progs {
		if program.Type == elf.PT_INTERP {
			return "", errors.New("not static (build it with CGO_ENABLED=0)")
		}
	}
	architectures := map[elf.Machine]string{
		elf.EM_X86_64:  "amd64",
		elf.EM_AARCH64: "arm64",
		elf.EM_PPC64:   "ppc64le",
		elf.EM_S390:    "s390x",
	}
	architecture, ok := architectures[binary.Machine]
	if !ok {
		return "", fmt.Errorf("no image architecture for %s", binary.Machine)
	}
	return architecture, nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"

	"github.com/example/demoapp-controller/hack/image/program"
	"github.com/example/demoapp-controller/hack/image/sbom"
)

func TestImage(t *testing.T) {
	repository := program.NewRepository(t)
	revision := strings.TrimSpace(program.Command(t, repository, nil, "git", "rev-parse", "HEAD"))
	output := filepath.Join(t.TempDir(), "image")

	bundle, err := Build("v1.2.3", program.Build(t, repository, "amd64", "arm64")...)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := bundle.Write(output, "registry.example.com/program:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}

	labels := map[string]string{
		"org.opencontainers.image.title":       "demoapp-controller",
		"org.opencontainers.image.description": Description,
		"org.opencontainers.image.source":      "https://github.com/example/demoapp-controller",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     "v1.2.3",
		"org.opencontainers.image.revision":    revision,
		"org.opencontainers.image.created":     program.CommitTime,
	}
	index, artifacts := readLayout(t, filepath.Join(output, "oci"), digest)
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 2 || !maps.Equal(manifest.Annotations, labels) {
		t.Errorf("index has %d platforms and the annotations %v", len(manifest.Manifests), manifest.Annotations)
	}
	for i, architecture := range []string{"amd64", "arm64"} {
		t.Run(architecture, func(t *testing.T) {
			descriptor := manifest.Manifests[i]
			if got := descriptor.Platform.String(); got != "linux/"+architecture {
				t.Errorf("platform of the index = %s", got)
			}
			image, err := index.Image(descriptor.Digest)
			if err != nil {
				t.Fatal(err)
			}
			checkImage(t, image, architecture, labels)
			checkFiles(t, image)
			checkReferrer(t, artifacts, descriptor.Digest, filepath.Join(output, "sbom-"+architecture+".spdx.json"))
			checkDockerArchive(t, filepath.Join(output, "docker-"+architecture+".tar"), image)
		})
	}
}

// readLayout returns the index with a digest, and the artifacts beside it.
func readLayout(t *testing.T, directory string, digest v1.Hash) (v1.ImageIndex, []v1.Image) {
	t.Helper()
	root, err := layout.ImageIndexFromPath(directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Errorf("the OCI layout is not valid: %v", err)
	}
	manifest, err := root.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var artifacts []v1.Image
	for _, descriptor := range manifest.Manifests {
		if descriptor.MediaType.IsImage() {
			artifact, err := root.Image(descriptor.Digest)
			if err != nil {
				t.Fatal(err)
			}
			artifacts = append(artifacts, artifact)
		}
	}
	index, err := root.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	return index, artifacts
}

func checkImage(t *testing.T, image v1.Image, architecture string, labels map[string]string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != architecture {
		t.Errorf("platform %s/%s", config.OS, config.Architecture)
	}
	if got := strings.Join(config.Config.Entrypoint, " "); got != "/program" || config.Config.User != "65532:65532" {
		t.Errorf("entrypoint %q, user %q", got, config.Config.User)
	}
	if !maps.Equal(config.Config.Labels, labels) {
		t.Errorf("labels = %v, want %v", config.Config.Labels, labels)
	}
	if got := config.Created.Format(time.RFC3339); got != program.CommitTime {
		t.Errorf("created %s", got)
	}
	manifest, err := image.Manifest()
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(manifest.Annotations, labels) {
		t.Errorf("annotations = %v, want %v", manifest.Annotations, labels)
	}
}

func checkFiles(t *testing.T, image v1.Image) {
	t.Helper()
	modes, roots := map[string]int64{}, []byte(nil)
	content := mutate.Extract(image)
	defer content.Close()
	files := tar.NewReader(content)
	for {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		modes[header.Name] = header.Mode
		if header.Name == certificatesFile {
			if roots, err = io.ReadAll(files); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := map[string]int64{
		"etc": 0o755, "etc/ssl": 0o755, "etc/ssl/certs": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o444, "program": 0o555,
	}
	if !maps.Equal(modes, want) {
		t.Errorf("files = %v, want %v", modes, want)
	}
	// Mozilla trusts more than a hundred roots. A bundle of a few would break most TLS connections.
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM(roots) || bytes.Count(roots, []byte("BEGIN CERTIFICATE")) < 100 {
		t.Errorf("%s has %d certificates", certificatesFile, bytes.Count(roots, []byte("BEGIN CERTIFICATE")))
	}
}

// checkReferrer checks that one artifact refers to an image and holds the bill of materials in a file.
func checkReferrer(t *testing.T, artifacts []v1.Image, image v1.Hash, file string) {
	t.Helper()
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, artifact := range artifacts {
		manifest, err := artifact.Manifest()
		if err != nil {
			t.Fatal(err)
		}
		if manifest.Subject == nil || manifest.Subject.Digest != image {
			continue
		}
		found++
		if manifest.Config.MediaType != sbom.MediaType || manifest.Layers[0].MediaType != sbom.MediaType {
			t.Errorf("types of the artifact: %s and %s", manifest.Config.MediaType, manifest.Layers[0].MediaType)
		}
		layers, err := artifact.Layers()
		if err != nil {
			t.Fatal(err)
		}
		content, err := layers[0].Compressed()
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(content)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the artifact differs from %s (%v)", file, err)
		}
	}
	if found != 1 {
		t.Errorf("%d artifacts refer to %s, want 1", found, image)
	}
}

// checkDockerArchive checks that an archive for "docker load" has the layers of an image.
func checkDockerArchive(t *testing.T, file string, image v1.Image) {
	t.Helper()
	loaded, err := tarball.ImageFromPath(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := loaded.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	want, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("%s has the configuration %s, want %s", file, got, want)
	}
}

func TestSameCommitGivesSameImage(t *testing.T) {
	repository := program.NewRepository(t)
	pack := func() (v1.Hash, []byte) {
		bundle, err := Build("v1.2.3", program.Build(t, program.Clone(t, repository), "amd64", "arm64")...)
		if err != nil {
			t.Fatal(err)
		}
		output := filepath.Join(t.TempDir(), "image")
		digest, err := bundle.Write(output, "program:v1.2.3")
		if err != nil {
			t.Fatal(err)
		}
		layout, err := os.ReadFile(filepath.Join(output, "oci.tar"))
		if err != nil {
			t.Fatal(err)
		}
		return digest, layout
	}

	digest, layout := pack()
	again, layoutAgain := pack()

	if digest != again {
		t.Errorf("two builds of one commit gave %s and %s", digest, again)
	}
	if !bytes.Equal(layout, layoutAgain) {
		t.Error("two builds of one commit gave different archives, bills of materials included")
	}
}

func TestPush(t *testing.T) {
	tests := []struct {
		name      string
		referrers bool
	}{
		{"registry with referrers", true},
		{"registry without referrers", false},
	}
	binaries := program.Build(t, program.NewRepository(t), "amd64", "arm64")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewServer(registry.New(
				registry.WithReferrersSupport(test.referrers), registry.Logger(log.New(t.Output(), "", 0))))
			t.Cleanup(server.Close)
			reference := strings.TrimPrefix(server.URL, "http://") + "/team/program:v1.2.3"
			bundle, err := Build("v1.2.3", binaries...)
			if err != nil {
				t.Fatal(err)
			}

			pushed, err := bundle.Push(t.Context(), reference)
			if err != nil {
				t.Fatal(err)
			}

			index, err := remote.Index(pushed, remote.WithContext(t.Context()))
			if err != nil {
				t.Fatalf("pull %s: %v", pushed, err)
			}
			if err := validate.Index(index); err != nil {
				t.Errorf("the pulled index is not valid: %v", err)
			}
			for _, platform := range bundle.Platforms {
				checkPulled(t, pushed, platform)
			}
		})
	}
}

// checkPulled pulls the image of one platform and its bill of materials, and compares them with those that were pushed.
func checkPulled(t *testing.T, pushed name.Digest, want Platform) {
	t.Helper()
	platform := v1.Platform{OS: "linux", Architecture: want.Architecture}
	image, err := remote.Image(pushed, remote.WithContext(t.Context()), remote.WithPlatform(platform))
	if err != nil {
		t.Fatal(err)
	}
	got, err := image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config, err := want.Image.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, config) {
		t.Errorf("configuration of %s = %s, want %s", want.Architecture, got, config)
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(pushed.Digest(digest.String()), remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	referrer, err := want.Referrer.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Digest != referrer || manifest.Manifests[0].ArtifactType != sbom.MediaType {
		t.Errorf("referrers of %s = %+v, want one with the digest %s", want.Architecture, manifest.Manifests, referrer)
	}
}

func TestUnreachableRegistry(t *testing.T) {
	server := httptest.NewServer(registry.New())
	server.Close()
	bundle, err := Build("", program.Build(t, program.NewRepository(t), "amd64")...)
	if err != nil {
		t.Fatal(err)
	}

	_, err = bundle.Push(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/program:dev")

	if err == nil || !strings.Contains(err.Error(), "push the index") {
		t.Errorf("error = %v", err)
	}
}

func TestBuildRefuses(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	repository := program.NewRepository(t)
	binaries := program.Build(t, repository, "amd64", "amd64")
	if err := os.WriteFile(filepath.Join(repository, "new.go"), []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	modified := program.Build(t, repository, "arm64")[0]
	tests := []struct {
		name     string
		binaries []string
		message  string
	}{
		{"nothing", nil, "no binaries to pack"},
		{"a missing file", []string{"nothing-here"}, "read the binary"},
		{"a script", []string{script}, "not a Linux binary"},
		{"one architecture twice", binaries, "is the second binary for amd64"},
		{"binaries of two builds", []string{binaries[0], modified}, "is of another commit or version"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := Build("", test.binaries...); err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("error = %v, want one with %q", err, test.message)
			}
		})
	}
}

func TestWriteRefusesTag(t *testing.T) {
	bundle, err := Build("", program.Build(t, program.NewRepository(t), "amd64")...)
	if err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "image")

	_, err = bundle.Write(output, "Bad Tag")

	if err == nil || !strings.Contains(err.Error(), "tag:") {
		t.Errorf("error = %v", err)
	}
	if _, err := os.Stat(output); err == nil {
		t.Error("files were written")
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/x509"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func TestImage(t *testing.T) {
	repository := newRepository(t)
	labels := dockerfileLabels(t, map[string]string{
		"VERSION": "v1.2.3", "CREATED": commitTime,
		"REVISION": strings.TrimSpace(command(t, repository, nil, "git", "rev-parse", "HEAD")),
	})
	tag, err := name.NewTag("registry.example.com/demoapp-controller:v1.2.3")
	must(t, err)
	o := newImage(t, repository)

	must(t, o.pack())

	digest, err := v1.NewHash(strings.TrimSpace(read(t, o.output, "digest")))
	must(t, err)
	content, err := layout.ImageIndexFromPath(filepath.Join(o.output, "oci"))
	must(t, err)
	if err := validate.Index(content); err != nil {
		t.Errorf("the OCI layout is not valid: %v", err)
	}
	index, err := content.ImageIndex(digest)
	must(t, err)
	manifest, err := index.IndexManifest()
	must(t, err)
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
			must(t, err)
			config, err := image.ConfigFile()
			must(t, err)
			if config.Platform().String() != "linux/"+architecture || config.Created.Format(time.RFC3339) != commitTime {
				t.Errorf("the image is for %s, of %s", config.Platform(), config.Created)
			}
			manifest, err := image.Manifest()
			must(t, err)
			if !maps.Equal(config.Config.Labels, labels) || !maps.Equal(manifest.Annotations, labels) {
				t.Errorf("labels = %v, annotations = %v, want %v", config.Config.Labels, manifest.Annotations, labels)
			}
			checkDockerfile(t, config.Config)
			checkFiles(t, image)
			loaded, err := tarball.ImageFromPath(filepath.Join(o.output, "docker-"+architecture+".tar"), &tag)
			must(t, err)
			got, err := loaded.ConfigName()
			must(t, err)
			if want, err := image.ConfigName(); err != nil || got != want {
				t.Errorf(`"docker load" gets the image %s, want %s (%v)`, got, want, err)
			}
		})
	}
}

func checkFiles(t *testing.T, image v1.Image) {
	t.Helper()
	content := mutate.Extract(image)
	defer content.Close()
	modes, contents := unpack(t, content)
	want := map[string]int64{
		"etc": 0o755, "etc/ssl": 0o755, "etc/ssl/certs": 0o755, certificatesFile: 0o444, "demoapp-controller": 0o555,
	}
	if !maps.Equal(modes, want) {
		t.Errorf("files = %v, want %v", modes, want)
	}
	// Mozilla trusts more than a hundred roots. A bundle of a few would break most TLS connections.
	roots := contents[certificatesFile]
	count := strings.Count(roots, "BEGIN CERTIFICATE")
	if pool := x509.NewCertPool(); !pool.AppendCertsFromPEM([]byte(roots)) || count < 100 {
		t.Errorf("%s has %d certificates", certificatesFile, count)
	}
}

// The OCI archive of a release has everything that is pushed.
func TestPush(t *testing.T) {
	packed := newImage(t, newRepository(t))
	must(t, packed.pack())
	for _, referrers := range []bool{true, false} {
		t.Run(fmt.Sprintf("registry with referrers %t", referrers), func(t *testing.T) {
			o := options{image: t.TempDir(), tag: newRegistry(t, referrers) + "/team/program:v1.2.3"}
			must(t, os.Mkdir(filepath.Join(o.image, "oci"), 0o750))
			command(t, o.image, nil, "tar", "-xf", filepath.Join(packed.output, "oci.tar"), "-C", "oci")
			tag, err := name.NewTag(o.tag)
			must(t, err)

			must(t, o.push(t.Context()))

			index, err := remote.Index(tag, remote.WithContext(t.Context()))
			must(t, err)
			if err := validate.Index(index); err != nil {
				t.Errorf("the pulled index is not valid: %v", err)
			}
			digest, err := index.Digest()
			must(t, err)
			if want := read(t, packed.output, "digest"); digest.String()+"\n" != want {
				t.Errorf("the pulled index is %s, want %s", digest, want)
			}
			manifest, err := index.IndexManifest()
			must(t, err)
			for _, image := range manifest.Manifests {
				checkReferrer(t, tag.Digest(image.Digest.String()),
					filepath.Join(packed.output, "sbom-"+image.Platform.Architecture+".spdx.json"))
			}
		})
	}
}

// checkReferrer checks that one artifact refers to a pushed image and holds the bill of materials
// in a file.
func checkReferrer(t *testing.T, image name.Digest, file string) {
	t.Helper()
	want, _, err := v1.SHA256(strings.NewReader(read(t, file)))
	must(t, err)
	referrers, err := remote.Referrers(image, remote.WithContext(t.Context()))
	must(t, err)
	found, err := referrers.IndexManifest()
	must(t, err)
	if len(found.Manifests) != 1 || found.Manifests[0].ArtifactType != sbomType {
		t.Fatalf("referrers of %s = %+v, want one bill of materials", image, found.Manifests)
	}
	artifact, err := remote.Image(image.Digest(found.Manifests[0].Digest.String()), remote.WithContext(t.Context()))
	must(t, err)
	manifest, err := artifact.Manifest()
	must(t, err)
	if layer := manifest.Layers[0]; layer.MediaType != sbomType || layer.Digest != want {
		t.Errorf("the referrer of %s is %+v, want %s", image, layer, file)
	}
}

func TestPackRefuses(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	write(t, "#!/bin/sh\n", script)
	repository := newRepository(t)
	valid := newImage(t, repository)
	write(t, "package main\n", repository, "new.go")
	modified := build(t, repository, "arm64")[0]
	tests := []struct {
		name    string
		change  func(*options)
		message string
	}{
		{"nothing", func(o *options) { o.binaries = nil }, "no binaries"},
		{"a missing file", func(o *options) { o.binaries[1] = "nothing-here" }, "read the binary"},
		{"a script", func(o *options) { o.binaries[1] = script }, "not built by the go command"},
		{"one architecture twice", func(o *options) { o.binaries[1] = o.binaries[0] }, "is the second binary for linux-amd64"},
		{"binaries of two builds", func(o *options) { o.binaries[1] = modified }, "is of another commit or version"},
		{"a bad tag", func(o *options) { o.tag = "Bad Tag" }, "tag:"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkRefuses(t, valid, test.change, options.pack, test.message)
		})
	}
}

func TestImageNeedsProgramThatRunsAlone(t *testing.T) {
	for setting, value := range map[string]string{"GOOS": "darwin", "CGO_ENABLED": "1", "-buildmode": "pie"} {
		p := program{settings: map[string]string{"GOOS": "linux", "CGO_ENABLED": "0", "-buildmode": "exe"}}
		must(t, p.checkRunsAlone())
		p.settings[setting] = value
		if err := p.checkRunsAlone(); err == nil {
			t.Errorf("a program with %s=%s is not refused", setting, value)
		}
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// pack replaces the output directory with the image of static Linux binaries of the same build, one
// per architecture.
func (o options) pack() error {
	tag, err := name.NewTag(o.tag)
	if err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	programs, err := readPrograms(o.version, o.binaries...)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	index, referrers := v1.ImageIndex(empty.Index), []mutate.IndexAddendum{}
	for i, p := range programs {
		image, document, referrer, err := p.pack(filepath.Base(o.binaries[i]))
		if err != nil {
			return fmt.Errorf("%s: %w", o.binaries[i], err)
		}
		var loadable bytes.Buffer
		if err := tarball.Write(tag, image, &loadable); err != nil {
			return fmt.Errorf("write the archive for docker: %w", err)
		}
		architecture := p.settings["GOARCH"]
		files["docker-"+architecture+".tar"], files["sbom-"+architecture+".spdx.json"] = loadable.Bytes(), document
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: architecture},
		}})
		referrers = append(referrers, mutate.IndexAddendum{Add: referrer})
	}
	index = mutate.Annotations(index, programs[0].labels()).(v1.ImageIndex)
	digest, err := index.Digest()
	if err != nil {
		return fmt.Errorf("digest of the index: %w", err)
	}
	files["digest"] = []byte(digest.String() + "\n")
	if err := replaceFiles(o.output, files); err != nil {
		return err
	}
	named := mutate.IndexAddendum{Add: index, Descriptor: v1.Descriptor{Annotations: map[string]string{
		"org.opencontainers.image.ref.name": tag.TagStr(),
		"io.containerd.image.name":          tag.Name(),
	}}}
	contents := append([]mutate.IndexAddendum{named}, referrers...)
	if err := o.writeLayout(mutate.AppendManifests(empty.Index, contents...)); err != nil {
		return fmt.Errorf("write the OCI layout: %w", err)
	}
	fmt.Printf("%s: %s@%s\n", o.output, tag, digest)
	return nil
}

// writeLayout writes an OCI layout as a directory and as an archive.
func (o options) writeLayout(content v1.ImageIndex) error {
	directory := filepath.Join(o.output, "oci")
	if _, err := layout.Write(directory, content); err != nil {
		return err
	}
	files, err := readTree(directory, "")
	if err != nil {
		return err
	}
	packed, err := archive(time.Unix(0, 0), files)
	if err != nil {
		return err
	}
	return os.WriteFile(directory+".tar", packed, 0o600)
}

// push pushes the index and the bills of materials of an OCI layout to a registry, with the
// credentials of "docker login". A registry on the loopback interface is reached by plain HTTP.
func (o options) push(ctx context.Context) error {
	tag, err := name.NewTag(o.tag)
	if err != nil {
		return fmt.Errorf("tag: %w", err)
	}
	content, err := layout.ImageIndexFromPath(filepath.Join(o.image, "oci"))
	if err != nil {
		return fmt.Errorf("read the OCI layout: %w", err)
	}
	manifests, err := partial.ComputeManifests(content)
	if err != nil {
		return fmt.Errorf("read the OCI layout: %w", err)
	}
	for _, manifest := range manifests {
		digest, err := manifest.Digest()
		if err != nil {
			return fmt.Errorf("read the OCI layout: %w", err)
		}
		// Bills of materials have no tag.
		reference := name.Reference(tag.Digest(digest.String()))
		if _, ok := manifest.(v1.ImageIndex); ok {
			reference = tag
		}
		err = remote.Push(reference, manifest.(remote.Taggable),
			remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
		if err != nil {
			return fmt.Errorf("push %s: %w", reference, err)
		}
		fmt.Printf("pushed: %s (%s)\n", reference, digest)
	}
	return nil
}

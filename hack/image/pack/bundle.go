// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"errors"
	"fmt"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/example/demoapp-controller/hack/image/roots"
	"github.com/example/demoapp-controller/hack/image/sbom"
)

// Bundle is an image of several platforms with its bills of materials.
type Bundle struct {
	// Index refers to the images of all platforms.
	Index     v1.ImageIndex
	Platforms []Platform
}

// Platform is the image of one platform.
type Platform struct {
	Architecture string
	Image        v1.Image
	// SBOM is the bill of materials, and Referrer the artifact that holds it and refers to Image.
	SBOM     []byte
	Referrer v1.Image
}

// Build packs static Linux binaries of the same build, one per architecture. Release is the version of a release; if it
// is empty, the version is that of the binaries.
func Build(release string, binaries ...string) (*Bundle, error) {
	if len(binaries) == 0 {
		return nil, errors.New("no binaries to pack")
	}
	b := &Bundle{Index: mutate.IndexMediaType(empty.Index, types.OCIImageIndex)}
	var common stamp
	taken := map[string]bool{}
	for i, binary := range binaries {
		platform, s, err := platformOf(release, binary)
		if err != nil {
			return nil, err
		}
		switch {
		case i == 0:
			common = s
		case s != common:
			return nil, fmt.Errorf("%s: is of another commit or version than %s; build both again", binary, binaries[0])
		}
		if taken[platform.Architecture] {
			return nil, fmt.Errorf("%s: is the second binary for %s", binary, platform.Architecture)
		}
		taken[platform.Architecture] = true
		b.Platforms = append(b.Platforms, platform)
		b.Index = mutate.AppendManifests(b.Index, mutate.IndexAddendum{Add: platform.Image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: "linux", Architecture: platform.Architecture},
		}})
	}
	b.Index = mutate.Annotations(b.Index, common.labels()).(v1.ImageIndex)
	return b, nil
}

func platformOf(release, binary string) (Platform, stamp, error) {
	content, err := os.ReadFile(binary)
	if err != nil {
		return Platform{}, stamp{}, fmt.Errorf("read the binary: %w", err)
	}
	architecture, info, err := inspect(content)
	if err != nil {
		return Platform{}, stamp{}, fmt.Errorf("%s: %w", binary, err)
	}
	s, err := stampOf(info, release)
	if err != nil {
		return Platform{}, stamp{}, fmt.Errorf("%s: %w", binary, err)
	}
	image, err := imageOf(binary, content, architecture, s)
	if err != nil {
		return Platform{}, stamp{}, err
	}
	document, err := sbom.Write(content, sbom.Options{
		Name:    fmt.Sprintf("%s-%s-image-linux-%s", Title, s.version, architecture),
		Version: s.version, License: Licenses, Created: s.created, Shipped: roots.Modules(),
	})
	if err != nil {
		return Platform{}, stamp{}, fmt.Errorf("%s: %w", binary, err)
	}
	referrer, err := referrerOf(image, document, s)
	if err != nil {
		return Platform{}, stamp{}, err
	}
	return Platform{Architecture: architecture, Image: image, SBOM: document, Referrer: referrer}, s, nil
}

// referrerOf returns an artifact with a document that refers to an image. Its type is that of its configuration, as of OCI
// artifacts whose manifest has no artifactType.
func referrerOf(subject v1.Image, document []byte, s stamp) (v1.Image, error) {
	descriptor, err := partial.Descriptor(subject)
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	artifact := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	artifact = mutate.ConfigMediaType(artifact, sbom.MediaType)
	if artifact, err = mutate.AppendLayers(artifact, static.NewLayer(document, sbom.MediaType)); err != nil {
		return nil, fmt.Errorf("append the bill of materials: %w", err)
	}
	artifact = mutate.Annotations(artifact, map[string]string{labelCreated: s.labels()[labelCreated]}).(v1.Image)
	return mutate.Subject(artifact, v1.Descriptor{
		MediaType: descriptor.MediaType, Size: descriptor.Size, Digest: descriptor.Digest,
	}).(v1.Image), nil
}

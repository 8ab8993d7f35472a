// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
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
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/example/demoapp-controller/hack/image/archive"
)

// Names of files in the output directory of Write.
const (
	layoutDirectory = "oci"
	layoutArchive   = "oci.tar"
	digestFile      = "digest"
)

// Write replaces a directory with the files that the package comment of the command describes. It returns the digest of
// the index.
func (b *Bundle) Write(directory, reference string) (v1.Hash, error) {
	tag, err := name.NewTag(reference)
	if err != nil {
		return v1.Hash{}, fmt.Errorf("tag: %w", err)
	}
	digest, err := b.Index.Digest()
	if err != nil {
		return v1.Hash{}, fmt.Errorf("digest of the index: %w", err)
	}
	if err := os.RemoveAll(directory); err != nil {
		return v1.Hash{}, fmt.Errorf("remove the previous image: %w", err)
	}
	if err := b.writeLayout(filepath.Join(directory, layoutDirectory), tag); err != nil {
		return v1.Hash{}, err
	}
	if err := archiveLayout(directory); err != nil {
		return v1.Hash{}, err
	}
	for _, platform := range b.Platforms {
		file := filepath.Join(directory, "docker-"+platform.Architecture+".tar")
		if err := tarball.WriteToFile(file, tag, platform.Image); err != nil {
			return v1.Hash{}, fmt.Errorf("write %s: %w", file, err)
		}
		file = filepath.Join(directory, "sbom-"+platform.Architecture+".spdx.json")
		if err := os.WriteFile(file, platform.SBOM, 0o600); err != nil {
			return v1.Hash{}, fmt.Errorf("write the bill of materials: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(directory, digestFile), []byte(digest.String()+"\n"), 0o600); err != nil {
		return v1.Hash{}, fmt.Errorf("write the digest: %w", err)
	}
	return digest, nil
}

func (b *Bundle) writeLayout(directory string, tag name.Tag) error {
	path, err := layout.Write(directory, empty.Index)
	if err != nil {
		return fmt.Errorf("create the OCI layout: %w", err)
	}
	err = path.AppendIndex(b.Index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": tag.TagStr(),
		"io.containerd.image.name":          tag.Name(),
	}))
	if err != nil {
		return fmt.Errorf("write the index: %w", err)
	}
	for _, platform := range b.Platforms {
		if err := path.AppendImage(platform.Referrer); err != nil {
			return fmt.Errorf("write the bill of materials of %s: %w", platform.Architecture, err)
		}
	}
	return nil
}

func archiveLayout(directory string) error {
	files, err := archive.ReadTree(os.DirFS(filepath.Join(directory, layoutDirectory)), "")
	if err != nil {
		return err
	}
	output, err := os.Create(filepath.Join(directory, layoutArchive))
	if err != nil {
		return fmt.Errorf("create the OCI archive: %w", err)
	}
	if err := archive.Write(output, time.Unix(0, 0), files...); err != nil {
		_ = output.Close()
		return err
	}
	if err := output.Close(); err != nil {
		return fmt.Errorf("write the OCI archive: %w", err)
	}
	return nil
}

// Push pushes the index and the bills of materials to a registry, with the credentials of "docker login". It returns the
// reference of the index by its digest. A registry on the loopback interface is reached by plain HTTP.
func (b *Bundle) Push(ctx context.Context, reference string) (name.Digest, error) {
	tag, err := name.NewTag(reference)
	if err != nil {
		return name.Digest{}, fmt.Errorf("push: %w", err)
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, b.Index, options...); err != nil {
		return name.Digest{}, fmt.Errorf("push the index: %w", err)
	}
	for _, platform := range b.Platforms {
		digest, err := platform.Referrer.Digest()
		if err != nil {
			return name.Digest{}, fmt.Errorf("digest of the bill of materials: %w", err)
		}
		if err := remote.Write(tag.Digest(digest.String()), platform.Referrer, options...); err != nil {
			return name.Digest{}, fmt.Errorf("push the bill of materials of %s: %w", platform.Architecture, err)
		}
	}
	digest, err := b.Index.Digest()
	if err != nil {
		return name.Digest{}, fmt.Errorf("digest of the index: %w", err)
	}
	return tag.Digest(digest.String()), nil
}

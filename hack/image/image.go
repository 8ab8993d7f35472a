// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"testing/fstest"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// Properties of all images.
const (
	// user is an arbitrary number other than 0, as "runAsNonRoot" of the restricted profile
	// demands. The image has no /etc/passwd.
	user     = "65532:65532"
	title    = "demoapp-controller"
	licenses = "Apache-2.0"
	// certificatesFile is the first path where Go and OpenSSL of Debian look for root certificates.
	certificatesFile   = "etc/ssl/certs/ca-certificates.crt"
	certificatesModule = "golang.org/x/crypto/x509roots/fallback"
	labelCreated       = "org.opencontainers.image.created"
)

// labels returns the labels of an image, which are the annotations of its manifest and its index as
// well.
func (s stamp) labels() map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":       title,
		"org.opencontainers.image.description": "Kubernetes operator that installs Helm charts for custom resources",
		"org.opencontainers.image.source":      "https://github.com/example/demoapp-controller",
		"org.opencontainers.image.licenses":    licenses,
		"org.opencontainers.image.version":     s.version,
		labelCreated:                           s.created.Format(time.RFC3339),
	}
	if s.revision != "" {
		labels["org.opencontainers.image.revision"] = s.revision
	}
	return labels
}

// rootCertificates returns the certificates that Mozilla trusts for servers, in PEM. They come from
// a Go module that the Go project updates. Roots with a constraint, such as a date after which
// Mozilla trusts no new certificate, are left out, because PEM has no place for the constraint.
func rootCertificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}))
		}
	}
	return out.Bytes()
}

// pack returns the image of a program, and its bill of materials as a document and as an artifact
// that refers to the image. Name is the name of the program in the image.
func (p program) pack(name string) (image v1.Image, document []byte, referrer v1.Image, err error) {
	if err := p.checkRunsAlone(); err != nil {
		return nil, nil, nil, err
	}
	if image, err = p.image(name); err != nil {
		return nil, nil, nil, fmt.Errorf("build the image: %w", err)
	}
	// The build information of a test does not list modules.
	var shipped []*debug.Module
	if info, ok := debug.ReadBuildInfo(); ok {
		shipped = slices.DeleteFunc(info.Deps, func(m *debug.Module) bool { return m.Path != certificatesModule })
	}
	document, err = p.sbom(fmt.Sprintf("%s-%s-image-%s", title, p.version, p.platform()), shipped...)
	if err != nil {
		return nil, nil, nil, err
	}
	subject, err := partial.Descriptor(image)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("describe the image: %w", err)
	}
	// If a manifest has no artifactType, the artifact has the type of its configuration.
	referrer = mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), sbomType)
	if referrer, err = mutate.AppendLayers(referrer, static.NewLayer(document, sbomType)); err != nil {
		return nil, nil, nil, fmt.Errorf("append the bill of materials: %w", err)
	}
	referrer = mutate.Annotations(referrer, map[string]string{labelCreated: p.labels()[labelCreated]}).(v1.Image)
	return image, document, mutate.Subject(referrer, v1.Descriptor{
		MediaType: subject.MediaType, Size: subject.Size, Digest: subject.Digest,
	}).(v1.Image), nil
}

// image returns an image with a layer for the root certificates and one for the program.
func (p program) image(name string) (v1.Image, error) {
	created := v1.Time{Time: p.created}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: p.settings["GOARCH"], Created: created,
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{Entrypoint: []string{"/" + name}, User: user, WorkingDir: "/", Labels: p.labels()},
	})
	if err != nil {
		return nil, err
	}
	for _, content := range []struct {
		history string
		files   fstest.MapFS
	}{
		{"root certificates", fstest.MapFS{certificatesFile: {Mode: 0o444, Data: rootCertificates()}}},
		{name, fstest.MapFS{name: {Mode: 0o555, Data: p.content}}},
	} {
		// The time is fixed, so that the digest depends on the content alone.
		files, err := archive(time.Unix(0, 0), content.files)
		if err != nil {
			return nil, err
		}
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(files)), nil
		}, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, err
		}
		history := v1.History{Created: created, CreatedBy: "hack/image: " + content.history}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history}); err != nil {
			return nil, err
		}
	}
	return mutate.Annotations(image, p.labels()).(v1.Image), nil
}

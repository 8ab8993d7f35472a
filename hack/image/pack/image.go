// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/example/demoapp-controller/hack/image/archive"
	"github.com/example/demoapp-controller/hack/image/roots"
)

// certificatesFile is the first path where Go and OpenSSL of Debian look for root certificates.
const certificatesFile = "etc/ssl/certs/ca-certificates.crt"

// What all images have in common.
const (
	// User is an arbitrary number other than 0, as "runAsNonRoot" of the restricted profile demands. The image has no
	// /etc/passwd.
	User        = "65532:65532"
	Title       = "demoapp-controller"
	Description = "Kubernetes operator that installs Helm charts for custom resources"
	Source      = "https://github.com/example/demoapp-controller"
	Licenses    = "Apache-2.0"
)

// Names of OCI annotations, which are labels as well.
const (
	labelTitle       = "org.opencontainers.image.title"
	labelDescription = "org.opencontainers.image.description"
	labelSource      = "org.opencontainers.image.source"
	labelLicenses    = "org.opencontainers.image.licenses"
	labelVersion     = "org.opencontainers.image.version"
	labelRevision    = "org.opencontainers.image.revision"
	labelCreated     = "org.opencontainers.image.created"
)

// stamp identifies the build that an image is made from.
type stamp struct {
	version, revision string
	created           time.Time
}

// stampOf returns the stamp of a binary. The version of a release is not in its build information, so it is given. Without
// a repository, the time is the Unix epoch.
func stampOf(info *debug.BuildInfo, release string) (stamp, error) {
	s := stamp{version: info.Main.Version, created: time.Unix(0, 0).UTC()}
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			s.revision = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		case "vcs.time":
			created, err := time.Parse(time.RFC3339, setting.Value)
			if err != nil {
				return stamp{}, fmt.Errorf("the time of the commit: %w", err)
			}
			s.created = created.UTC()
		}
	}
	if modified {
		s.revision += "+dirty"
	}
	if s.version == "" || s.version == "(devel)" {
		s.version = "devel"
	}
	if release != "" {
		s.version = release
	}
	return s, nil
}

// labels returns the labels of an image, which are the annotations of its manifest and its index as well.
func (s stamp) labels() map[string]string {
	labels := map[string]string{
		labelTitle:       Title,
		labelDescription: Description,
		labelSource:      Source,
		labelLicenses:    Licenses,
		labelVersion:     s.version,
		labelCreated:     s.created.Format(time.RFC3339),
	}
	if s.revision != "" {
		labels[labelRevision] = s.revision
	}
	return labels
}

// imageOf returns the image of one binary.
func imageOf(name string, binary []byte, architecture string, s stamp) (v1.Image, error) {
	name = filepath.Base(name)
	certificates, err := layerOf(archive.File{Name: certificatesFile, Mode: 0o444, Content: roots.PEM()})
	if err != nil {
		return nil, err
	}
	program, err := layerOf(archive.File{Name: name, Mode: 0o555, Content: binary})
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: s.created}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.Append(image,
		mutate.Addendum{Layer: certificates, History: v1.History{Created: created, CreatedBy: "hack/image: root certificates"}},
		mutate.Addendum{Layer: program, History: v1.History{Created: created, CreatedBy: "hack/image: " + name}},
	)
	if err != nil {
		return nil, fmt.Errorf("append the layers: %w", err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", architecture, created
	config.Config = v1.Config{
		Entrypoint: []string{"/" + name},
		User:       User,
		WorkingDir: "/",
		Labels:     s.labels(),
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return nil, fmt.Errorf("set the configuration: %w", err)
	}
	return mutate.Annotations(image, s.labels()).(v1.Image), nil
}

// layerOf returns a layer with one file. Its time is fixed, so that the digest depends on the content alone.
func layerOf(file archive.File) (v1.Layer, error) {
	var content bytes.Buffer
	if err := archive.Write(&content, time.Unix(0, 0), file); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, fmt.Errorf("compress %s: %w", file.Name, err)
	}
	return layer, nil
}

// inspect returns the architecture of a binary, by its name in Go, and its build information. It refuses a binary that
// would not start in an empty image.
func inspect(content []byte) (string, *debug.BuildInfo, error) {
	binary, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return "", nil, fmt.Errorf("not a Linux binary (build it with GOOS=linux): %w", err)
	}
	for _, program := range binary.Progs {
		if program.Type == elf.PT_INTERP {
			return "", nil, errors.New("not static (build it with CGO_ENABLED=0)")
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
		return "", nil, fmt.Errorf("no image architecture for %s", binary.Machine)
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return "", nil, fmt.Errorf("not built by the go command: %w", err)
	}
	return architecture, info, nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"helm.sh/helm/v4/pkg/registry"
)

// chartCache is a folder of pulled charts. The name of a file is the digest of its content,
// so a file is verified whenever it is read. A file that is missing or damaged is pulled again.
type chartCache struct {
	dir string
}

// pulledChart is the content behind a digest.
type pulledChart struct {
	// manifest is the OCI manifest; nil for other charts.
	manifest []byte
	archive  []byte
}

// read returns the archive for the digest in a reference. ok is false if the cache does not have
// the archive.
func (c chartCache) read(r chartReference, digest string) (archive []byte, ok bool) {
	if r.oci {
		manifest, err := c.readFile(digest, ".json")
		if err != nil {
			return nil, false
		}
		if digest, err = archiveDigest(manifest); err != nil {
			return nil, false
		}
	}
	archive, err := c.readFile(digest, ".tgz")
	return archive, err == nil
}

// write adds a chart.
func (c chartCache) write(pulled pulledChart) error {
	if pulled.manifest != nil {
		if err := c.writeFile(digestName(contentDigest(pulled.manifest), ".json"), pulled.manifest); err != nil {
			return err
		}
	}
	return c.writeFile(digestName(contentDigest(pulled.archive), ".tgz"), pulled.archive)
}

// remembered returns the digest of the version in a reference at its first pull, or an empty
// string.
func (c chartCache) remembered(r chartReference) (string, error) {
	data, err := c.readBounded(filepath.Base(c.versionFile(r)), maxVersionFile)
	switch digest := strings.TrimSpace(string(data)); {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !digestPattern.MatchString(digest):
		return "", fmt.Errorf("%s has no digest: remove the file to accept the present content of the version", c.versionFile(r))
	default:
		return digest, nil
	}
}

// remember records the digest of a version.
func (c chartCache) remember(r chartReference, digest string) error {
	return c.writeFile(filepath.Base(c.versionFile(r)), []byte(digest+"\n"))
}

// maxVersionFile bounds a file that records the digest of a version.
const maxVersionFile = 1 << 10

// versionFile is the file that records the digest of a version. Its name reveals nothing about the
// credentials in a location.
func (c chartCache) versionFile(r chartReference) string {
	return filepath.Join(c.dir, digestName(contentDigest([]byte(r.location+"\n"+r.version)), ".version"))
}

func (c chartCache) readFile(digest, extension string) ([]byte, error) {
	data, err := c.readBounded(digestName(digest, extension), maxDownload)
	if err == nil && contentDigest(data) != digest {
		err = errors.New("damaged")
	}
	return data, err
}

// writeFile creates or replaces a file at once, so that no reader sees a part of it. A retry may
// help after an error, because the disk may have space later.
func (c chartCache) writeFile(name string, data []byte) (err error) {
	defer func() {
		if err != nil {
			err = unavailableError{fmt.Errorf("write the cache: %w", err)}
		}
	}()
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(c.dir, ".pull-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(data)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(c.dir, name))
}

// readBounded reads a file of at most limit bytes.
func (c chartCache) readBounded(name string, limit int64) ([]byte, error) {
	file, err := os.OpenInRoot(c.dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s exceeds %d bytes", name, limit)
	}
	return data, err
}

func contentDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func digestName(digest, extension string) string {
	return strings.TrimPrefix(digest, "sha256:") + extension
}

// archiveDigest returns the digest of the chart's archive in a manifest. Helm picks any of
// several archives, so a manifest must have exactly one.
func archiveDigest(manifest []byte) (string, error) {
	var content struct {
		Config struct {
			MediaType string `json:"mediaType"`
		} `json:"config"`
		Layers []struct {
			MediaType string `json:"mediaType"`
			Digest    string `json:"digest"`
		} `json:"layers"`
	}
	if err := json.Unmarshal(manifest, &content); err != nil || content.Config.MediaType != registry.ConfigMediaType {
		return "", errNotChart
	}
	digest := ""
	for _, layer := range content.Layers {
		if layer.MediaType != registry.ChartLayerMediaType && layer.MediaType != registry.LegacyChartLayerMediaType {
			continue
		}
		if digest != "" || !digestPattern.MatchString(layer.Digest) {
			return "", errNotChart
		}
		digest = layer.Digest
	}
	if digest == "" {
		return "", errNotChart
	}
	return digest, nil
}

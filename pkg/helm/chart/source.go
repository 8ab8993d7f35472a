// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	helmarchive "helm.sh/helm/v4/pkg/chart/loader/archive"
	"k8s.io/klog/v2"
)

const (
	// maxDownload bounds the bytes of all answers to one pull.
	maxDownload = 20 << 20
	// defaultPullTimeout bounds one pull.
	defaultPullTimeout = 2 * time.Minute
	// resolveTimeout bounds the question whether a cached version has changed.
	resolveTimeout = 10 * time.Second
)

// ErrUnavailable means that the server of a chart gave no complete answer, or does not have the
// chart yet, or that the disk of the cache is full. A retry can help. Other errors of [Load] need a
// change of the reference, the credentials or the chart.
var ErrUnavailable = errors.New("the server of the chart gave no complete answer")

// unavailableError is an [ErrUnavailable] with a text of its own.
type unavailableError struct{ error }

// Unwrap returns the cause.
func (e unavailableError) Unwrap() error { return e.error }

// Is reports that the error is an [ErrUnavailable].
func (e unavailableError) Is(target error) bool { return target == ErrUnavailable }

// errNotChart means that a registry has something else under a reference.
var errNotChart = fmt.Errorf("%w: the reference is not the manifest of one Helm chart", ErrInvalid)

// Source says how [Load] finds charts. Local charts need no field.
type Source struct {
	// Dir is the directory that relative paths start from. The default is the working directory.
	Dir string
	// CacheDir is the folder that pulled charts are kept in. Remote charts need it. It is
	// created if it is missing. Charts in it are verified by their digests whenever they are
	// read; the digests of versions are trusted.
	CacheDir string
	// RegistryConfig is a Docker configuration file (config.json) with credentials for
	// registries. The default is Helm's file. Docker's own file is used for other
	// registries.
	RegistryConfig string
	// Timeout bounds the pull of one chart. The default is 2 minutes.
	Timeout time.Duration
	// Transport sends the requests of pulls. The default is a transport with the proxies of the
	// environment and the CAs of the system.
	Transport http.RoundTripper
}

// Load loads the chart that a reference names. A reference is one of
//
//   - the path of a directory or of an archive (.tgz),
//   - oci://registry/path/chart:<version> or oci://registry/path/chart@sha256:<digest>, where the
//     digest is the digest of the manifest, as "helm push" prints it,
//   - https://host/chart-<version>.tgz, or the URL of any archive with "#version=<version>" or
//     "#sha256=<digest>", where the digest is the SHA-256 of the archive. Fragments are never sent.
//
// Remote references must be pinned. A reference may have both pins; the chart is then
// found by its digest. A version must be a full one, such as 1.2.3, and Chart.yaml must have the
// same. A chart that is pinned by digest and cached is loaded without a request.
//
// For a version, the cache remembers the digest that was pulled first. The server is asked on
// each load. Another digest is an error, so a version never changes unnoticed. If the server is
// offline, denies access or has deleted the version, the cached chart is loaded. Two caches can
// have different content for one version, so replicas without a common cache should pin by digest.
//
// Plain HTTP is for hosts on loopback: registries there are asked by plain HTTP, and references to
// them may begin with http://. All other requests use HTTPS, including redirects. The
// answers to a pull are limited to 20 MiB in all, and Helm's limits for archives apply.
//
// The error wraps [ErrInvalid] when the content is not an installable chart, and
// [ErrUnavailable] when a retry can help. Errors have no credentials: the users,
// passwords and queries of URLs are left out.
func Load(ctx context.Context, reference string, source Source) (*Chart, error) {
	if !strings.Contains(reference, "://") {
		return source.loadPath(reference)
	}
	parsed, err := parseReference(reference)
	if err != nil {
		return nil, fmt.Errorf("chart %q: %w", redactReference(reference), err)
	}
	if source.CacheDir == "" {
		return nil, fmt.Errorf("chart %q: a remote chart needs a cache folder, and none is configured", parsed.text)
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(source.Timeout, defaultPullTimeout))
	defer cancel()
	chart, err := source.loadRemote(ctx, parsed)
	if err != nil {
		return nil, fmt.Errorf("chart %q: %w", parsed.text, err)
	}
	return chart, nil
}

func (s Source) loadPath(name string) (*Chart, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(s.Dir, name)
	}
	chart, err := loadFile(name)
	if err != nil {
		return nil, fmt.Errorf("chart %q: %w", name, err)
	}
	return chart, nil
}

// loadFile loads a directory or an archive.
func loadFile(name string) (*Chart, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return LoadDir(name)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: neither a directory nor a file", ErrInvalid)
	}
	file, err := os.Open(name) //nolint:gosec // The author of the operator's configuration chooses the path.
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return LoadArchive(file)
}

// loadRemote loads a chart from the cache. A missing chart is pulled first.
func (s Source) loadRemote(ctx context.Context, r chartReference) (*Chart, error) {
	cache := chartCache{dir: s.CacheDir}
	remote, err := s.remote(r)
	if err != nil {
		return nil, err
	}
	digest, isNew := r.digest, false
	if digest == "" {
		if digest, isNew, err = resolve(ctx, r, cache, remote); err != nil {
			return nil, err
		}
	}
	archive, ok := cache.read(r, digest)
	if !ok {
		pulled, err := remote.pull(ctx, digest)
		if err != nil {
			return nil, remoteError(r, err)
		}
		if err := cache.write(pulled); err != nil {
			return nil, err
		}
		archive = pulled.archive
	}
	if err := checkDecompressed(archive); err != nil {
		return nil, err
	}
	chart, err := LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return nil, err
	}
	if err := r.check(chart); err != nil {
		return nil, err
	}
	if isNew {
		if err := cache.remember(r, digest); err != nil {
			return nil, err
		}
	}
	return chart, nil
}

// checkDecompressed holds an archive to Helm's limit. Helm itself does not count the headers
// of files, so millions of empty files would pass.
func checkDecompressed(archive []byte) error {
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		return fmt.Errorf("read chart archive: %w: %w", ErrInvalid, err)
	}
	size, err := io.Copy(io.Discard, io.LimitReader(unzipped, helmarchive.MaxDecompressedChartSize+1))
	switch {
	case err != nil:
		return fmt.Errorf("read chart archive: %w: %w", ErrInvalid, err)
	case size > helmarchive.MaxDecompressedChartSize:
		return fmt.Errorf("%w: the decompressed archive exceeds %d bytes", ErrInvalid, helmarchive.MaxDecompressedChartSize)
	default:
		return nil
	}
}

// resolve returns the digest of a version. isNew is true if the cache does not remember it.
func resolve(ctx context.Context, r chartReference, cache chartCache, remote chartRemote) (digest string, isNew bool, err error) {
	remembered, err := cache.remembered(r)
	if err != nil {
		return "", false, fmt.Errorf("read the cache: %w", err)
	}
	if remembered == "" {
		digest, err := remote.resolve(ctx)
		if err != nil {
			return "", false, remoteError(r, err)
		}
		return digest, true, nil
	}
	short, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	switch digest, err := remote.resolve(short); {
	case ctx.Err() != nil:
		return "", false, remoteError(r, ctx.Err())
	case err != nil:
		klog.FromContext(ctx).Info("Using the cached chart, because its version could not be compared with the server's",
			"chart", r.text, "digest", remembered, "because", remoteError(r, err).Error())
	case digest != remembered:
		return "", false, fmt.Errorf("version %s is %s now and was %s when it was first pulled: use another version, "+
			"pin by digest, or remove %s to accept the present content", r.version, digest, remembered, cache.versionFile(r))
	}
	return remembered, false, nil
}

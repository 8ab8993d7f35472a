// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"

	"helm.sh/helm/v4/pkg/registry"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/example/demoapp-controller/pkg/endpoint"
)

// manifestMediaType is the media type of the manifests of charts.
const manifestMediaType = "application/vnd.oci.image.manifest.v1+json"

var (
	errTooLarge  = fmt.Errorf("the download exceeds %d bytes", maxDownload)
	errPlainHTTP = errors.New("the server redirects to plain HTTP, which is refused")
)

// chartRemote is the place of one remote chart.
type chartRemote interface {
	// resolve returns the digest that the version in the reference has now.
	resolve(ctx context.Context) (string, error)
	// pull returns the chart with a digest, and verifies it.
	pull(ctx context.Context, digest string) (pulledChart, error)
}

func (s Source) remote(r chartReference) (chartRemote, error) {
	if !r.oci {
		return &archiveRemote{source: s, location: r.location}, nil
	}
	if s.RegistryConfig != "" {
		if _, err := os.Stat(s.RegistryConfig); err != nil {
			return nil, fmt.Errorf("read the registry configuration: %w", err)
		}
	}
	return registryRemote{source: s, reference: r}, nil
}

// archiveRemote is the URL of an archive. Helm's getter is not used: it bounds neither the
// answer nor redirects, takes no context, and logs URLs with their queries.
type archiveRemote struct {
	source   Source
	location string
	// archive is the answer to resolve.
	archive []byte
}

func (a *archiveRemote) resolve(ctx context.Context) (string, error) {
	archive, err := a.download(ctx)
	if err != nil {
		return "", err
	}
	a.archive = archive
	return contentDigest(archive), nil
}

func (a *archiveRemote) pull(ctx context.Context, digest string) (pulledChart, error) {
	archive := a.archive
	if archive == nil {
		var err error
		if archive, err = a.download(ctx); err != nil {
			return pulledChart{}, err
		}
	}
	return pulledChart{archive: archive}, verify(archive, digest)
}

func (a *archiveRemote) download(ctx context.Context) ([]byte, error) {
	// A request with http.NoBody would not be retried.
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.location, nil)
	if err != nil {
		return nil, err
	}
	client, done := a.source.client(ctx)
	defer done()
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, &errcode.ErrorResponse{Method: request.Method, URL: request.URL, StatusCode: response.StatusCode}
	}
	return io.ReadAll(response.Body)
}

// registryRemote is a chart in an OCI registry. Helm's registry client sends the requests and
// knows the credentials. Its functions take no context and do not bound blobs; the transport
// does both. Its Pull chooses any of several archives, so the manifest is read here.
type registryRemote struct {
	source    Source
	reference chartReference
}

func (r registryRemote) resolve(ctx context.Context) (string, error) {
	client, done, err := r.client(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	descriptor, err := client.Resolve(r.reference.location + ":" + strings.ReplaceAll(r.reference.version, "+", "_"))
	return descriptor.Digest.String(), err
}

func (r registryRemote) pull(ctx context.Context, digest string) (pulledChart, error) {
	client, done, err := r.client(ctx)
	if err != nil {
		return pulledChart{}, err
	}
	defer done()
	// A reference with both a tag and a digest would be pulled by its tag.
	result, err := client.Generic().PullGeneric(r.reference.location+"@"+digest, registry.GenericPullOptions{
		AllowedMediaTypes: []string{manifestMediaType, registry.ChartLayerMediaType, registry.LegacyChartLayerMediaType},
	})
	if err != nil {
		return pulledChart{}, err
	}
	if result.Manifest.MediaType != manifestMediaType {
		return pulledChart{}, errNotChart
	}
	manifest, err := client.Generic().GetDescriptorData(result.MemoryStore, result.Manifest)
	if err != nil {
		return pulledChart{}, err
	}
	layer, err := archiveDigest(manifest)
	if err != nil {
		return pulledChart{}, err
	}
	for _, descriptor := range result.Descriptors {
		if descriptor.Digest.String() != layer {
			continue
		}
		archive, err := client.Generic().GetDescriptorData(result.MemoryStore, descriptor)
		return pulledChart{manifest: manifest, archive: archive}, errors.Join(err, verify(manifest, digest))
	}
	return pulledChart{}, errNotChart
}

// client returns a registry client for one pull. The caller must call done.
func (r registryRemote) client(ctx context.Context) (client *registry.Client, done func(), err error) {
	httpClient, done := r.source.client(ctx)
	options := []registry.ClientOption{
		registry.ClientOptHTTPClient(httpClient),
		registry.ClientOptCredentialsFile(r.source.RegistryConfig),
		registry.ClientOptEnableCache(true),
	}
	if endpoint.IsLoopback((&url.URL{Host: r.reference.host}).Hostname()) {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err = registry.NewClient(options...)
	if err != nil {
		done()
		return nil, nil, fmt.Errorf("read the registry configuration: %w", err)
	}
	return client, done, nil
}

func verify(data []byte, digest string) error {
	if actual := contentDigest(data); actual != digest {
		return fmt.Errorf("%w: the content has the digest %s, the reference has %s", ErrInvalid, actual, digest)
	}
	return nil
}

// client returns a client for one pull. It retries requests as Helm does. The caller must
// call done.
func (s Source) client(ctx context.Context) (client *http.Client, done func()) {
	retries := registry.NewTransport(false)
	done = func() {}
	if s.Transport != nil {
		retries.Base = s.Transport
	} else if own, ok := retries.Base.(*http.Transport); ok {
		// The transport does not decompress an archive, because its digest covers the compressed
		// bytes.
		own.DisableCompression = true
		done = own.CloseIdleConnections
	}
	bounded := &boundedTransport{ctx: ctx, base: retries}
	bounded.budget.Store(maxDownload)
	return &http.Client{Transport: bounded, CheckRedirect: checkRedirect}, done
}

// maxRedirects is the limit of net/http.
const maxRedirects = 10

func checkRedirect(request *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	if request.URL.Scheme != "https" && via[len(via)-1].URL.Scheme == "https" {
		return errPlainHTTP
	}
	// The Referer has the query of the previous URL.
	request.Header.Del("Referer")
	return nil
}

// boundedTransport sends the requests of one pull.
type boundedTransport struct {
	// ctx ends all requests. Helm's registry client has no context of its own.
	ctx  context.Context
	base http.RoundTripper
	// budget is the number of bytes that the answers may still have.
	budget atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (t *boundedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Scheme != "https" && !endpoint.IsLoopback(request.URL.Hostname()) {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, errPlainHTTP
	}
	response, err := t.base.RoundTrip(request.WithContext(t.ctx))
	if err != nil {
		return nil, err
	}
	response.Body = &boundedBody{ReadCloser: response.Body, budget: &t.budget}
	return response, nil
}

// boundedBody fails once the budget of its transport is spent.
type boundedBody struct {
	io.ReadCloser
	budget *atomic.Int64
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.budget.Add(-int64(n)) < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// remoteError returns an error of a pull with a text for people, without credentials.
func remoteError(r chartReference, err error) error {
	var answer *errcode.ErrorResponse
	var network net.Error
	status := 0
	if errors.As(err, &answer) {
		status = answer.StatusCode
	}
	switch {
	case errors.Is(err, errTooLarge):
		return errTooLarge
	case errors.Is(err, errPlainHTTP):
		return errPlainHTTP
	case errors.Is(err, auth.ErrBasicCredentialNotFound), status == http.StatusUnauthorized, status == http.StatusForbidden:
		return r.denied(err)
	case errors.Is(err, errdef.ErrNotFound), status == http.StatusNotFound:
		// The chart may be published later.
		return unavailableError{fmt.Errorf("%s has no such chart (404): check the path and the version", r.host)}
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= http.StatusInternalServerError,
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled), status == 0 && errors.As(err, &network):
		return fmt.Errorf("%w: check that %s can be reached: %w", ErrUnavailable, r.host, redacted(err))
	default:
		return redacted(err)
	}
}

// denied adds where to configure the credentials for the host of a chart.
func (r chartReference) denied(err error) error {
	if r.oci {
		return fmt.Errorf("access to %s is denied: check its credentials in the registry configuration: %w", r.host, redacted(err))
	}
	return fmt.Errorf("access to %s is denied: check the credentials in the URL: %w", r.host, redacted(err))
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v4/pkg/registry"
)

// chartServer is a server of charts on loopback.
type chartServer struct {
	*httptest.Server

	requests atomic.Int64
	// handler answers all requests.
	handler atomic.Value
}

func newChartServer(t *testing.T, start func(http.Handler) *httptest.Server, handler http.HandlerFunc) *chartServer {
	t.Helper()
	server := &chartServer{}
	server.handler.Store(handler)
	server.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		server.requests.Add(1)
		server.handler.Load().(http.HandlerFunc)(w, r)
	}))
	// The log has the TLS handshakes that a test makes fail.
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(server.Close)
	return server
}

// newRegistry is an OCI registry on loopback.
func newRegistry(t *testing.T) *chartServer {
	t.Helper()
	return newChartServer(t, httptest.NewServer, newOCIRegistry().ServeHTTP)
}

// host is the address of the server.
func (s *chartServer) host() string { return s.Listener.Addr().String() }

// intercept lets a function answer requests. A request that it does not answer goes to
// the handler before.
func (s *chartServer) intercept(answers func(w http.ResponseWriter, r *http.Request) bool) {
	next := s.handler.Load().(http.HandlerFunc)
	s.handler.Store(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers(w, r) {
			next(w, r)
		}
	}))
}

// push pushes an archive as "helm push" does, and returns the digest of its manifest.
func (s *chartServer) push(t *testing.T, archive []byte) string {
	t.Helper()
	client, err := registry.NewClient(registry.ClientOptPlainHTTP())
	if err != nil {
		t.Fatal(err)
	}
	result, err := client.Push(archive, s.host()+"/charts/test:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return result.Manifest.Digest
}

// put uploads a manifest as it is.
func (s *chartServer) put(t *testing.T, tag, mediaType, manifest string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, s.URL+"/v2/charts/test/manifests/"+tag, strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", mediaType)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusCreated {
		t.Fatal(response.Status)
	}
}

// archiveOf returns a packed chart with a text in it.
func archiveOf(t *testing.T, text string) []byte {
	t.Helper()
	return packed(t, chartFS(map[string]string{"templates/a.yaml": configMap("a", text)}), "test").Bytes()
}

// serve answers with an archive.
func serve(archive []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(archive) }
}

func answer(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// newSource returns a source with an empty cache and without credentials of this machine.
func newSource(t *testing.T) Source {
	t.Helper()
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Source{CacheDir: filepath.Join(t.TempDir(), "charts"), RegistryConfig: config}
}

func mustLoad(t *testing.T, reference string, source Source) *Chart {
	t.Helper()
	chart, err := Load(t.Context(), reference, source)
	if err != nil {
		t.Fatal(err)
	}
	if chart.Name() != "test" || chart.Version() != "1.2.3" {
		t.Fatalf("loaded %s %s", chart.Name(), chart.Version())
	}
	return chart
}

// refusesChart loads a chart that must be refused with one line that has all of texts. is
// is an error that the refusal wraps, or nil.
func refuses(t *testing.T, reference string, source Source, is error, texts ...string) {
	t.Helper()
	chart, err := Load(t.Context(), reference, source)
	if err == nil {
		t.Fatalf("loaded %s", chart.Name())
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q lacks %q", err, text)
		}
	}
	for _, secret := range []string{"hunter2", "\n"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("error %q has %q", err, secret)
		}
	}
	if is != nil && !errors.Is(err, is) {
		t.Errorf("error %q does not wrap %q", err, is)
	}
}

func TestLoadFromPath(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(
		os.CopyFS(filepath.Join(dir, "folder"), chartFS(nil)),
		os.WriteFile(filepath.Join(dir, "test-1.2.3.tgz"), packed(t, chartFS(nil), "test").Bytes(), 0o600),
		os.WriteFile(filepath.Join(dir, "text"), []byte("no chart"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	source := Source{Dir: dir}

	folder := mustLoad(t, "folder", source)
	archive := mustLoad(t, "./test-1.2.3.tgz", source)
	absolute := mustLoad(t, filepath.Join(dir, "folder"), Source{Dir: "elsewhere"})
	t.Chdir(dir)
	working := mustLoad(t, "folder", Source{})

	if folder.Digest() != archive.Digest() || folder.Digest() != absolute.Digest() || folder.Digest() != working.Digest() {
		t.Error("the charts differ")
	}
	refuses(t, "none", source, os.ErrNotExist, "none", "no such file")
	refuses(t, "text", source, ErrInvalid, "text")
	refuses(t, os.DevNull, source, ErrInvalid, "neither a directory nor a file")
}

func TestReferences(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	tests := map[string]struct {
		want  chartReference
		error string
	}{
		"oci://example.com/charts/test:1.2.3": {want: chartReference{
			oci: true, location: "example.com/charts/test", host: "example.com", version: "1.2.3",
		}},
		"oci://localhost:5000/test:v1.2.3-rc.1_build": {want: chartReference{
			oci: true, location: "localhost:5000/test", host: "localhost:5000", version: "v1.2.3-rc.1+build",
		}},
		"oci://localhost:5000/test:1.2.3+build": {want: chartReference{
			oci: true, location: "localhost:5000/test", host: "localhost:5000", version: "1.2.3+build",
		}},
		"oci://example.com/test@" + digest: {want: chartReference{
			oci: true, location: "example.com/test", host: "example.com", digest: digest,
		}},
		"oci://example.com/test:1.2.3@" + digest: {want: chartReference{
			oci: true, location: "example.com/test", host: "example.com", digest: digest, version: "1.2.3",
		}},
		"https://example.com/my-chart-2-1.2.3-rc.1.tgz": {want: chartReference{
			location: "https://example.com/my-chart-2-1.2.3-rc.1.tgz", host: "example.com", version: "1.2.3-rc.1",
		}},
		"https://example.com/get?name=a#version=1.2.3": {want: chartReference{
			location: "https://example.com/get?name=a", host: "example.com", version: "1.2.3",
		}},
		"https://example.com/a-9.9.9.tgz#sha256=" + digest[7:]: {want: chartReference{
			location: "https://example.com/a-9.9.9.tgz", host: "example.com", digest: digest,
		}},
		"https://example.com/a.tgz#sha256=" + digest[7:] + "&version=1.2.3+build": {want: chartReference{
			location: "https://example.com/a.tgz", host: "example.com", digest: digest, version: "1.2.3+build",
		}},
		"http://[::1]:80/a-1.2.3.tgz": {want: chartReference{
			location: "http://[::1]:80/a-1.2.3.tgz", host: "[::1]:80", version: "1.2.3",
		}},

		"oci://example.com/charts/test":                {error: `not pinned: append ":<version>" or "@sha256:<digest>"`},
		"oci://example.com:5000/charts/test":           {error: "not pinned"},
		"oci://example.com/test:latest":                {error: "the tag is not a full version"},
		"oci://example.com/test:1.2":                   {error: "the tag is not a full version"},
		"oci://example.com/test@sha256:12":             {error: "64 lower-case hexadecimal digits"},
		"oci://example.com/test@":                      {error: "64 lower-case hexadecimal digits"},
		"oci://example.com/test:1.2.3?token=hunter2":   {error: "no user, query or fragment"},
		"oci://me:hunter2@example.com/test:1.2.3":      {error: "no user, query or fragment"},
		"oci:///test:1.2.3":                            {error: "the URL has no host"},
		"https://example.com/test.tgz":                 {error: `not pinned: append "#sha256=<digest>" or "#version=<version>"`},
		"https://example.com/test-1.2.3.zip":           {error: "not pinned"},
		"https://example.com/test-1.tgz":               {error: "not pinned"},
		"https://example.com/test.tgz#hunter2":         {error: "the fragment must be"},
		"https://example.com/test.tgz#sha256=12":       {error: "the fragment must be"},
		"https://example.com/test.tgz#version=1":       {error: "the fragment must be"},
		"http://example.com/test-1.2.3.tgz":            {error: "http:// is for loopback hosts only"},
		"http://127.0.0.1.example.com/test-1.2.3.tgz":  {error: "http:// is for loopback hosts only"},
		"ftp://example.com/test-1.2.3.tgz":             {error: "unknown scheme"},
		"https://me:hun ter2@example.com/t-1.2.3.tgz":  {error: "not a valid URL"},
		"https://me:hunter2@example.com:x/t-1.2.3.tgz": {error: "not a valid URL"},
	}
	for reference, test := range tests {
		t.Run(reference, func(t *testing.T) {
			if test.error != "" {
				refuses(t, reference, newSource(t), nil, test.error)
				return
			}

			got, err := parseReference(reference)

			got.text = ""
			if err != nil || got != test.want {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

func TestRemoteChartNeedsCache(t *testing.T) {
	refuses(t, "https://me:hunter2@example.com/test-1.2.3.tgz?token=hunter2", Source{}, nil,
		`chart "https://example.com/test-1.2.3.tgz"`, "needs a cache folder")
}

func TestPullFromRegistry(t *testing.T) {
	for _, pin := range []string{"version", "digest", "both"} {
		t.Run(pin, func(t *testing.T) {
			server, source := newRegistry(t), newSource(t)
			digest := server.push(t, archiveOf(t, "first"))
			reference := "oci://" + server.host() + "/charts/test" +
				map[string]string{"version": ":1.2.3", "digest": "@" + digest, "both": ":1.2.3@" + digest}[pin]

			pulled := mustLoad(t, reference, source)
			server.requests.Store(0)
			cached := mustLoad(t, reference, source)
			requests := server.requests.Load()
			server.Close()
			offline := mustLoad(t, reference, source)

			if pulled.Digest() != testChart(t, map[string]string{"templates/a.yaml": configMap("a", "first")}).Digest() {
				t.Error("pulled another chart")
			}
			if cached.Digest() != pulled.Digest() || offline.Digest() != pulled.Digest() {
				t.Error("the cache has another chart")
			}
			if limit := map[string]int64{"version": 1}[pin]; requests > limit {
				t.Errorf("%d requests for a cached chart", requests)
			}
		})
	}
}

func TestPullFromURL(t *testing.T) {
	archive := archiveOf(t, "first")
	for name, pin := range map[string]string{
		"version in the file name": "", "version": "#version=1.2.3", "digest": "#sha256=" + contentDigest(archive)[7:],
	} {
		t.Run(name, func(t *testing.T) {
			for scheme, start := range map[string]func(http.Handler) *httptest.Server{
				"http": httptest.NewServer, "https": httptest.NewTLSServer,
			} {
				server, source := newChartServer(t, start, serve(archive)), newSource(t)
				source.Transport = server.Client().Transport
				reference := scheme + "://" + server.host() + "/test-1.2.3.tgz?token=hunter2" + pin

				pulled := mustLoad(t, reference, source)
				server.Close()
				offline := mustLoad(t, reference, source)

				if pulled.Digest() != testChart(t, map[string]string{"templates/a.yaml": configMap("a", "first")}).Digest() ||
					offline.Digest() != pulled.Digest() {
					t.Errorf("%s: pulled another chart", scheme)
				}
				if server.requests.Load() != 1 {
					t.Errorf("%s: %d requests", scheme, server.requests.Load())
				}
			}
		})
	}
}

// TestChangedVersion holds that a version keeps the content that was pulled first.
func TestChangedVersion(t *testing.T) {
	first, second := archiveOf(t, "first"), archiveOf(t, "second")
	t.Run("registry", func(t *testing.T) {
		server, source := newRegistry(t), newSource(t)
		reference := "oci://" + server.host() + "/charts/test:1.2.3"
		was := server.push(t, first)
		mustLoad(t, reference, source)
		now := server.push(t, second)

		refuses(t, reference, source, nil, "version 1.2.3 is "+now, "was "+was, "remove "+source.CacheDir)
		mustLoad(t, "oci://"+server.host()+"/charts/test@"+was, source)
		mustLoad(t, "oci://"+server.host()+"/charts/test@"+now, source)
	})
	t.Run("URL", func(t *testing.T) {
		server, source := newChartServer(t, httptest.NewServer, serve(first)), newSource(t)
		reference := server.URL + "/test-1.2.3.tgz"
		mustLoad(t, reference, source)
		server.handler.Store(serve(second))

		refuses(t, reference, source, nil, "version 1.2.3 is "+contentDigest(second), "was "+contentDigest(first))
		versions, err := filepath.Glob(filepath.Join(source.CacheDir, "*.version"))
		if err != nil || len(versions) != 1 {
			t.Fatal(versions, err)
		}
		if err := os.WriteFile(versions[0], []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		refuses(t, reference, source, nil, versions[0]+" has no digest: remove the file")
		if err := os.Remove(versions[0]); err != nil {
			t.Fatal(err)
		}
		mustLoad(t, reference, source)
	})
}

func TestDamagedCache(t *testing.T) {
	server, source := newRegistry(t), newSource(t)
	reference := "oci://" + server.host() + "/charts/test@" + server.push(t, archiveOf(t, "first"))
	pulled := mustLoad(t, reference, source)
	for _, pattern := range []string{"*.json", "*.tgz"} {
		files, err := filepath.Glob(filepath.Join(source.CacheDir, pattern))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		if err := os.WriteFile(files[0], archiveOf(t, "forged"), 0o600); err != nil {
			t.Fatal(err)
		}

		again := mustLoad(t, reference, source)

		if again.Digest() != pulled.Digest() {
			t.Errorf("%s: loaded the forged file", pattern)
		}
	}
}

// TestLostConnectionWithoutCachedChart holds that half an answer is not taken for the chart
// when only the digest of the version is remembered.
func TestLostConnectionWithoutCachedChart(t *testing.T) {
	archive := archiveOf(t, "first")
	server, source := newChartServer(t, httptest.NewServer, serve(archive)), newSource(t)
	reference := server.URL + "/test-1.2.3.tgz"
	mustLoad(t, reference, source)
	if err := os.Remove(filepath.Join(source.CacheDir, contentDigest(archive)[7:]+".tgz")); err != nil {
		t.Fatal(err)
	}
	var lost atomic.Bool
	server.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if lost.Swap(true) {
			return false
		}
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(archive[:10])
		return true
	})

	mustLoad(t, reference, source)
}

func TestRefusedPulls(t *testing.T) {
	archive := archiveOf(t, "first")
	zeros := "sha256:" + strings.Repeat("0", 64)
	other := newChartServer(t, httptest.NewServer, serve(archive))
	const plain = "redirects to plain HTTP, which is refused"
	tests := map[string]struct {
		handler http.HandlerFunc
		pin     string
		want    string
		is      error
	}{
		"another digest":  {handler: serve(archive), pin: "#sha256=" + zeros[7:], want: "the reference has " + zeros, is: ErrInvalid},
		"another version": {handler: serve(archive), pin: "#version=1.2.4", want: "the version in Chart.yaml is 1.2.3, the reference has 1.2.4"},
		"a page":          {handler: serve([]byte("<html>")), want: "not a valid chart", is: ErrInvalid},
		"half an archive": {handler: serve(archive[:len(archive)/2]), want: "not a valid chart", is: ErrInvalid},
		"too large when decompressed": {handler: func(w http.ResponseWriter, _ *http.Request) {
			var member bytes.Buffer
			zipped := gzip.NewWriter(&member)
			_, _ = zipped.Write(make([]byte, 1<<20))
			_ = zipped.Close()
			_, _ = w.Write(bytes.Repeat(member.Bytes(), 101))
		}, want: "the decompressed archive exceeds 104857600 bytes", is: ErrInvalid},
		"a lost connection": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write(archive[:10])
		}, want: "no complete answer", is: ErrUnavailable},
		"too large": {handler: func(w http.ResponseWriter, _ *http.Request) {
			for range 21 {
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}, want: "the download exceeds 20971520 bytes"},
		"not found":     {handler: answer(http.StatusNotFound), want: "has no such chart (404)", is: ErrUnavailable},
		"unauthorized":  {handler: answer(http.StatusUnauthorized), want: "is denied: check the credentials in the URL"},
		"forbidden":     {handler: answer(http.StatusForbidden), want: "is denied: check the credentials in the URL"},
		"a bad request": {handler: answer(http.StatusBadRequest), want: "response status code 400"},
		"a redirect to plain HTTP on loopback": {
			handler: func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) }, want: plain,
		},
		"a redirect to plain HTTP elsewhere": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/a.tgz?token=hunter2", http.StatusFound)
		}, want: plain},
		"redirects without end": {handler: func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.String(), http.StatusFound)
		}, want: "stopped after 10 redirects"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, source := newChartServer(t, httptest.NewTLSServer, test.handler), newSource(t)
			source.Transport = server.Client().Transport

			refuses(t, "https://me:hunter2@"+server.host()+"/test-1.2.3.tgz?token=hunter2"+test.pin, source, test.is,
				`chart "https://`+server.host()+`/test-1.2.3.tgz"`, test.want)

			if other.requests.Load() != 0 {
				t.Error("followed a redirect to plain HTTP")
			}
			if files, _ := filepath.Glob(filepath.Join(source.CacheDir, "*.version")); len(files) != 0 {
				t.Errorf("remembers %v", files)
			}
		})
	}
}

// TestRedirect holds that a redirect to another host by HTTPS is followed without credentials.
func TestRedirect(t *testing.T) {
	archive := archiveOf(t, "first")
	var mu sync.Mutex
	var header http.Header
	server := newChartServer(t, httptest.NewTLSServer, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/blob" {
			http.Redirect(w, r, "https://example.com/blob", http.StatusFound)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		header = r.Header.Clone()
		_, _ = w.Write(archive)
	})
	source := newSource(t)
	source.Transport = dialAlways(server)

	mustLoad(t, "https://me:hunter2@"+server.host()+"/test-1.2.3.tgz?token=hunter2", source)

	mu.Lock()
	defer mu.Unlock()
	if header == nil || header.Get("Authorization") != "" || header.Get("Referer") != "" {
		t.Errorf("the other host got the headers %v", header)
	}
}

// dialAlways returns a transport that finds the server under each host, as example.com is
// one of the names in its certificate.
func dialAlways(server *chartServer) *http.Transport {
	transport := server.Client().Transport.(*http.Transport).Clone()
	transport.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.host())
	}
	return transport
}

func TestOffline(t *testing.T) {
	server, source := newRegistry(t), newSource(t)
	server.Close()
	for _, reference := range []string{"oci://" + server.host() + "/charts/test:1.2.3", server.URL + "/test-1.2.3.tgz?token=hunter2"} {
		refuses(t, reference, source, ErrUnavailable, "check that "+server.host()+" can be reached", "connection refused")
	}
}

func TestPullTimeout(t *testing.T) {
	server, source := newRegistry(t), newSource(t)
	server.handler.Store(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	source.Timeout = time.Millisecond
	for _, reference := range []string{"oci://" + server.host() + "/charts/test:1.2.3", server.URL + "/test-1.2.3.tgz"} {
		refuses(t, reference, source, ErrUnavailable, "no complete answer", "deadline exceeded")
	}
}

func TestCanceledPull(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server, source := newRegistry(t), newSource(t)
	server.handler.Store(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))

	_, err := Load(ctx, "oci://"+server.host()+"/charts/test:1.2.3", source)

	if !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestRefusedPullsFromRegistry(t *testing.T) {
	const (
		manifest = "application/vnd.oci.image.manifest.v1+json"
		index    = "application/vnd.oci.image.index.v1+json"
	)
	zeros := "sha256:" + strings.Repeat("0", 64)
	manifestWith := func(config string, layers ...string) string {
		text := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":2},"layers":[`, manifest, config, zeros)
		return text + strings.Join(layers, ",") + "]}"
	}
	layer := func(mediaType string, size int) string {
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, mediaType, zeros, size)
	}
	tests := map[string]struct {
		prepare func(t *testing.T, server *chartServer)
		pin     string
		want    string
		is      error
	}{
		"nothing": {prepare: func(*testing.T, *chartServer) {}, pin: ":1.2.3", want: "has no such chart (404)"},
		"no such digest": {
			prepare: func(t *testing.T, server *chartServer) { server.push(t, archiveOf(t, "first")) },
			pin:     "@" + zeros, want: "has no such chart (404)",
		},
		"another manifest under a digest": {prepare: func(t *testing.T, server *chartServer) {
			server.push(t, archiveOf(t, "first"))
			server.intercept(func(_ http.ResponseWriter, r *http.Request) bool {
				r.URL.Path = strings.Replace(r.URL.Path, zeros, "1.2.3", 1)
				return false
			})
		}, pin: "@" + zeros, want: "digest"},
		"another archive under a digest": {prepare: func(t *testing.T, server *chartServer) {
			server.push(t, archiveOf(t, "first"))
			server.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				blob := strings.Contains(r.URL.Path, "/blobs/")
				if blob {
					_, _ = w.Write(archiveOf(t, "forged"))
				}
				return blob
			})
		}, pin: ":1.2.3", want: "mismatch"},
		"an image": {prepare: func(t *testing.T, server *chartServer) {
			server.put(t, "1.2.3", manifest, manifestWith("application/vnd.oci.image.config.v1+json",
				layer("application/vnd.oci.image.layer.v1.tar+gzip", 9)))
		}, pin: ":1.2.3", want: "not the manifest of one Helm chart", is: ErrInvalid},
		"an index": {prepare: func(t *testing.T, server *chartServer) {
			server.put(t, "1.2.3", index, `{"schemaVersion":2,"manifests":[]}`)
		}, pin: ":1.2.3", want: "not the manifest of one Helm chart", is: ErrInvalid},
		"a chart without an archive": {prepare: func(t *testing.T, server *chartServer) {
			server.put(t, "1.2.3", manifest, manifestWith(registry.ConfigMediaType))
		}, pin: ":1.2.3", want: "not the manifest of one Helm chart", is: ErrInvalid},
		"too large": {prepare: func(t *testing.T, server *chartServer) {
			server.put(t, "1.2.3", manifest, manifestWith(registry.ConfigMediaType, layer(registry.ChartLayerMediaType, 1<<40)))
			server.intercept(func(w http.ResponseWriter, r *http.Request) bool {
				blob := strings.Contains(r.URL.Path, "/blobs/")
				for range 21 {
					if blob {
						_, _ = w.Write(make([]byte, 1<<20))
					}
				}
				return blob
			})
		}, pin: ":1.2.3", want: "the download exceeds 20971520 bytes"},
		"credentials missing": {prepare: func(_ *testing.T, server *chartServer) {
			server.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("WWW-Authenticate", "Basic")
				w.WriteHeader(http.StatusUnauthorized)
				return true
			})
		}, pin: ":1.2.3", want: "is denied: check its credentials in the registry configuration"},
		"a token server on plain HTTP": {prepare: func(_ *testing.T, server *chartServer) {
			server.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("WWW-Authenticate", `Bearer realm="http://example.com/token?key=hunter2",service="a"`)
				w.WriteHeader(http.StatusUnauthorized)
				return true
			})
		}, pin: ":1.2.3", want: "plain HTTP"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, source := newRegistry(t), newSource(t)
			test.prepare(t, server)

			refuses(t, "oci://"+server.host()+"/charts/test"+test.pin, source, test.is, test.want)
		})
	}
}

func TestRegistryCredentials(t *testing.T) {
	server, source := newRegistry(t), newSource(t)
	server.push(t, archiveOf(t, "first"))
	server.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == "me" && password == "hunter2" {
			return false
		}
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	reference := "oci://" + server.host() + "/charts/test:1.2.3"
	login := func(password string) {
		config, err := json.Marshal(map[string]any{"auths": map[string]any{
			server.host(): map[string]any{"auth": base64.StdEncoding.EncodeToString([]byte("me:" + password))},
		}})
		if err := errors.Join(err, os.WriteFile(source.RegistryConfig, config, 0o600)); err != nil {
			t.Fatal(err)
		}
	}

	login("wrong-hunter2")
	refuses(t, reference, source, nil, "is denied: check its credentials")
	login("hunter2")
	mustLoad(t, reference, source)

	source.RegistryConfig += ".none"
	refuses(t, reference, source, os.ErrNotExist, "read the registry configuration", "no such file")
}

// TestRemoteRegistryByHTTPS holds that a registry that is not on loopback is asked by HTTPS only.
func TestRemoteRegistryByHTTPS(t *testing.T) {
	handler := newOCIRegistry()
	plain := newChartServer(t, httptest.NewServer, handler.ServeHTTP)
	secure := newChartServer(t, httptest.NewTLSServer, handler.ServeHTTP)
	plain.push(t, archiveOf(t, "first"))
	source := newSource(t)
	source.Transport = dialAlways(secure)

	mustLoad(t, "oci://example.com/charts/test:1.2.3", source)

	secure.intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "http://"+plain.host()+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	source.CacheDir = t.TempDir()
	refuses(t, "oci://example.com/charts/test:1.2.3", source, nil, "redirects to plain HTTP, which is refused")
}

func TestConcurrentPulls(t *testing.T) {
	server, source := newRegistry(t), newSource(t)
	server.push(t, archiveOf(t, "first"))
	var group errgroup.Group
	for range 8 {
		group.Go(func() error {
			_, err := Load(t.Context(), "oci://"+server.host()+"/charts/test:1.2.3", source)
			return err
		})
	}

	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	files, err := os.ReadDir(source.CacheDir)
	if err != nil || len(files) != 3 {
		t.Errorf("the cache has %v, %v", files, err)
	}
}

func TestUnwritableCache(t *testing.T) {
	server, source := newRegistry(t), newSource(t)
	server.push(t, archiveOf(t, "first"))
	source.CacheDir = filepath.Join(t.TempDir(), "file", "charts")
	if err := os.WriteFile(filepath.Dir(source.CacheDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	refuses(t, "oci://"+server.host()+"/charts/test:1.2.3", source, nil, "read the cache", "not a directory")
}

// TestCacheThatCannotBeWritten holds that a full disk is a reason to try again.
func TestCacheThatCannotBeWritten(t *testing.T) {
	archive := archiveOf(t, "first")
	server, source := newRegistry(t), newSource(t)
	server.push(t, archive)
	inTheWay := filepath.Join(source.CacheDir, contentDigest(archive)[7:]+".tgz")
	if err := os.MkdirAll(inTheWay, 0o700); err != nil {
		t.Fatal(err)
	}

	refuses(t, "oci://"+server.host()+"/charts/test:1.2.3", source, ErrUnavailable, "write the cache")

	if err := os.Remove(inTheWay); err != nil {
		t.Fatal(err)
	}
	mustLoad(t, "oci://"+server.host()+"/charts/test:1.2.3", source)
}

// TestPullRetries holds that a server that fails for a moment is asked again.
func TestPullRetries(t *testing.T) {
	server, source := newChartServer(t, httptest.NewServer, serve(archiveOf(t, "first"))), newSource(t)
	var failed atomic.Bool
	server.intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		if failed.Swap(true) {
			return false
		}
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	})

	mustLoad(t, server.URL+"/test-1.2.3.tgz", source)
}

func TestLongErrorOfServer(t *testing.T) {
	err := redacted(errors.New("GET https://me:hunter2@example.com/a?token=hunter2#hunter2:\n" + string(bytes.Repeat([]byte("ä"), 600))))

	if text := err.Error(); !strings.HasPrefix(text, "GET https://example.com/a ä") || len(text) > maxPullErrorText+3 || strings.Contains(text, "hunter2") {
		t.Errorf("text is %q", text)
	}
}

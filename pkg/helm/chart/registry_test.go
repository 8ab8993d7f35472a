// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// ociRegistry answers the requests of the OCI distribution specification that a client sends to push and pull: blobs in one
// upload, and manifests by tag and by digest. It keeps everything in memory, for one repository.
type ociRegistry struct {
	mu sync.Mutex
	// content has blobs and manifests by their path without the repository, as in "blobs/sha256:..." and "manifests/1.2.3".
	content map[string]ociContent
}

type ociContent struct {
	mediaType string
	bytes     []byte
}

func newOCIRegistry() *ociRegistry { return &ociRegistry{content: map[string]ociContent{}} }

// digest returns the digest of a blob or manifest.
func (c ociContent) digest() string { return fmt.Sprintf("sha256:%x", sha256.Sum256(c.bytes)) }

func (o *ociRegistry) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last, upload := strings.Join(parts[max(0, len(parts)-2):], "/"), strings.HasSuffix(strings.TrimSuffix(r.URL.Path, "/"), "/blobs/uploads")
	switch {
	case upload && r.Method == http.MethodPost:
		w.Header().Set("Location", strings.TrimSuffix(r.URL.Path, "/"))
		w.WriteHeader(http.StatusAccepted)
	case upload && r.Method == http.MethodPut:
		o.put(w, r, "blobs/"+r.URL.Query().Get("digest"))
	case r.Method == http.MethodPut:
		o.put(w, r, last)
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		content, found := o.content[last]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", content.mediaType)
		w.Header().Set("Content-Length", fmt.Sprint(len(content.bytes)))
		w.Header().Set("Docker-Content-Digest", content.digest())
		if r.Method == http.MethodGet {
			_, _ = w.Write(content.bytes)
		}
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

// put keeps the body of a request under a path, and a manifest also under its digest.
func (o *ociRegistry) put(w http.ResponseWriter, r *http.Request, path string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	content := ociContent{mediaType: r.Header.Get("Content-Type"), bytes: body}
	o.content[path] = content
	if kind, _, _ := strings.Cut(path, "/"); kind == "manifests" {
		o.content["manifests/"+content.digest()] = content
	}
	w.Header().Set("Docker-Content-Digest", content.digest())
	w.WriteHeader(http.StatusCreated)
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// write is a request that created or changed an object of benchNamespace.
type write struct {
	method, path, query, contentType string
	body                             []byte
	// uid of the object, if the answer is JSON; all objects that own others are answered as JSON.
	uid types.UID
}

// isStatus reports whether the request writes a status.
func (w write) isStatus() bool { return strings.HasSuffix(w.path, "/status") }

// target identifies what the request writes. The path of a create does not name the object.
func (w write) target() string {
	if w.method != http.MethodPost {
		return w.path
	}
	// A custom resource is not in the scheme; its body is JSON.
	if object, _, err := scheme.Codecs.UniversalDeserializer().Decode(w.body, nil, nil); err == nil {
		if accessor, err := meta.Accessor(object); err == nil {
			return w.path + "/" + accessor.GetName()
		}
	}
	var created metav1.PartialObjectMetadata
	_ = json.Unmarshal(w.body, &created)
	return w.path + "/" + created.Name
}

// recorder is a proxy in front of the API server that records the writes of the operator.
type recorder struct {
	server *http.Server
	url    string
	base   http.RoundTripper

	mu     sync.Mutex
	writes []write
}

// startRecorder starts a recorder. Requests get the credentials of config, since clients send no token without TLS.
func startRecorder(listener net.Listener, config *rest.Config) (*recorder, error) {
	base, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	r := &recorder{url: "http://" + listener.Addr().String(), base: base}
	proxy := &httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: r,
		// Watches are passed on at once.
		FlushInterval: -1,
		// Watches that end with the operator are no errors.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	r.server = &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *recorder) close() error { return r.server.Close() }

// recorded returns the writes so far.
func (r *recorder) recorded() []write {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.writes)
}

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	if !isRecorded(request.Method, request.URL.Path) {
		return r.base.RoundTrip(request)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	sent := request.Clone(request.Context())
	sent.Body = io.NopCloser(bytes.NewReader(body))
	response, err := r.base.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(response.Body)
	if err := response.Body.Close(); err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	if err == nil && response.StatusCode < http.StatusMultipleChoices {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writes = append(r.writes, write{
			method: request.Method, path: request.URL.Path, query: request.URL.RawQuery,
			contentType: request.Header.Get("Content-Type"), body: body, uid: uidIn(answer),
		})
	}
	return response, err
}

// isRecorded reports whether a request writes an object of benchNamespace. Events are written apart from the work.
func isRecorded(method, path string) bool {
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return strings.Contains(path, "/namespaces/"+benchNamespace+"/") && !strings.Contains(path, "/events")
	default:
		return false
	}
}

// uidIn returns the UID of an object in JSON; empty for an object in protobuf.
func uidIn(answer []byte) types.UID {
	var object struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(answer, &object); err != nil {
		return ""
	}
	return object.Metadata.UID
}

// writeKubeconfig writes a copy of a kubeconfig that reaches the API server through the recorder.
func (r *recorder) writeKubeconfig(from, to string) error {
	config, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return err
	}
	for _, server := range config.Clusters {
		server.Server, server.CertificateAuthorityData = r.url, nil
	}
	if err := clientcmd.WriteToFile(*config, to); err != nil {
		return fmt.Errorf("kubeconfig of the recorder: %w", err)
	}
	return nil
}

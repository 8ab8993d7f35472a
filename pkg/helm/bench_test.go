// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/helm/charts"
	"github.com/example/demoapp-controller/test/fakeapi"
)

// benchServer is a reduced fake server: it answers an apply with the sent object and one entry of
// managedFields.
type benchServer struct {
	*fakeapi.Server

	version *atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (s benchServer) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPatch {
		response, err := s.Server.RoundTrip(request)
		s.TakeRequests()
		return response, err
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	_ = request.Body.Close()
	version := s.version.Add(1)
	const added = `"metadata":{"uid":"uid-%d","managedFields":[{"manager":"helm","operation":"Apply","fieldsType":"FieldsV1","fieldsV1":{"f:data":{}}}],`
	answer := strings.Replace(string(body), `"metadata":{`, fmt.Sprintf(added, version), 1)
	answer = strings.Replace(answer, `"resourceVersion":"1"`, fmt.Sprintf(`"resourceVersion":"%d"`, version), 1)
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(answer)), Request: request,
	}, nil
}

// BenchmarkInstall measures the time of the engine itself for an install and an upgrade of the demo
// chart, with an owner, and without an API server's work.
func BenchmarkInstall(b *testing.B) {
	server := benchServer{Server: fakeapi.New(b), version: &atomic.Int64{}}
	server.version.Store(1 << 20) // Above all versions of the fake server.
	config := Config{
		RESTConfig: server.RESTConfig(), HTTPClient: &http.Client{Transport: server}, Logger: slog.New(slog.DiscardHandler),
	}
	engine, err := New(config)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		engine.Run(ctx)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for !engine.HasSynced() {
		<-time.After(time.Millisecond)
	}
	chart, err := chart.LoadFS(charts.DemoApp(), ".")
	if err != nil {
		b.Fatal(err)
	}
	owner := demoOwner()
	run := func(b *testing.B, name string, values map[string]any, action Action, baseline Baseline) Baseline {
		b.Helper()
		merged := map[string]any{"apiKey": "verysecret"}
		maps.Copy(merged, values)
		desired := Release{Namespace: "default", Name: name, Chart: chart, Values: merged, Owner: &owner}
		deployed, err := engine.Execute(ctx, desired, Decision{Action: action}, baseline)
		if err != nil {
			b.Fatal(err)
		}
		return deployed.Baseline()
	}
	n := 0
	b.Run("install", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n++
			run(b, fmt.Sprintf("web-%d", n), nil, ActionInstall, Baseline{})
		}
	})
	b.Run("upgrade", func(b *testing.B) {
		b.ReportAllocs()
		n++
		name := fmt.Sprintf("web-%d", n)
		baseline := run(b, name, nil, ActionInstall, Baseline{})
		replicas := 1
		for b.Loop() {
			replicas++
			baseline = run(b, name, map[string]any{"replicaCount": replicas % 100}, ActionUpgrade, baseline)
		}
	})
}

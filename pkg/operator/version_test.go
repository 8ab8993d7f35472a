// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

func TestStampOf(t *testing.T) {
	const commit, date = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "2026-01-02T03:04:05Z"
	const pseudo = "v0.0.0-20260102030405-0a1b2c3d4e5f"
	build := func(version, modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: []debug.BuildSetting{
			{Key: "vcs", Value: "git"},
			{Key: "vcs.revision", Value: commit},
			{Key: "vcs.time", Value: date},
			{Key: "vcs.modified", Value: modified},
		}}
	}
	tests := []struct {
		name              string
		explicit, release string
		info              *debug.BuildInfo
		want              stamp
	}{
		{name: "no stamp", info: &debug.BuildInfo{}, want: stamp{"devel", "unknown", "unknown"}},
		{
			name: "go build without a repository", info: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			want: stamp{"devel", "unknown", "unknown"},
		},
		{
			name: "go install of a version", info: &debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}},
			want: stamp{"v1.2.3", "unknown", "unknown"},
		},
		{name: "clean repository", info: build(pseudo, "false"), want: stamp{pseudo, commit, date}},
		{
			name: "uncommitted changes", info: build(pseudo+"+dirty", "true"),
			want: stamp{pseudo + "+dirty", commit + "+dirty", date},
		},
		{name: "release", release: "v1.2.3", info: build(pseudo, "false"), want: stamp{"v1.2.3", commit, date}},
		{
			name: "version of the program", explicit: "v2.0.0", release: "v1.2.3", info: build(pseudo, "false"),
			want: stamp{"v2.0.0", commit, date},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := stampOf(test.explicit, test.release, test.info); got != test.want {
				t.Errorf("stamp = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestVersionLine(t *testing.T) {
	options := Options{Version: "v1.2.3", Commit: "0a1b", Date: "2026-01-02T03:04:05Z"}
	got := options.VersionLine()
	if want := "v1.2.3 commit=0a1b date=2026-01-02T03:04:05Z goversion=" + runtime.Version(); got != want {
		t.Errorf("VersionLine() = %q, want %q", got, want)
	}
}

func TestStartIsLoggedWithBuild(t *testing.T) {
	var log bytes.Buffer
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
	cfg := config{Options: Options{Version: "v1.2.3", Commit: "0a1b", Date: "2026-01-02T03:04:05Z"}}

	logStart(ctx, cfg, &rest.Config{Host: "https://127.0.0.1"}, nil)

	want := `"Starting" version="v1.2.3" commit="0a1b" date="2026-01-02T03:04:05Z" goversion="` + runtime.Version() + `" `
	if !strings.Contains(log.String(), want) {
		t.Errorf("log = %q, want %s", &log, want)
	}
}

func TestBuildInfoMetric(t *testing.T) {
	tests := []struct{ program, metric string }{
		{"demoapp-controller", "demoapp_controller_build_info"},
		{"2nd.operator", "_nd_operator_build_info"},
	}
	for _, test := range tests {
		t.Run(test.program, func(t *testing.T) {
			options := Options{Name: test.program, Version: "v1.2.3", Commit: "0a1b", Date: "2026-01-02T03:04:05Z"}
			registry := prometheus.NewRegistry()
			registry.MustRegister(options.buildInfo())

			_, body := get(t, metricsHandler(registry), "/metrics")

			want := test.metric + `{commit="0a1b",date="2026-01-02T03:04:05Z",goversion="` + runtime.Version() + `",version="v1.2.3"} 1`
			if !strings.Contains(body, "\n"+want+"\n") {
				t.Errorf("/metrics without %s:\n%s", want, body)
			}
		})
	}
}

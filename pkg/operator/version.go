// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// develVersion is the version of a binary without any stamp.
	develVersion = "devel"
	// unknownStamp is the commit and the date of a binary that was built outside of a repository.
	unknownStamp = "unknown"
	// dirtySuffix marks the commit of a binary with uncommitted changes. The go command marks
	// versions in the same way.
	dirtySuffix = "+dirty"
)

// releaseVersion is the version of a release, which the linker sets:
//
//	go build -ldflags '-X github.com/example/demoapp-controller/pkg/operator.releaseVersion=v1.2.3'
var releaseVersion string

// stamp identifies the build of a binary.
type stamp struct{ version, commit, date string }

// readStamp returns the stamp of this binary. The version is the first of: explicit, the version
// that the linker set, and the version that the go command stamped, which is a tag or a
// pseudo-version with the commit.
func readStamp(explicit string) stamp {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return stampOf(explicit, releaseVersion, info)
}

// BuildVersion returns the version of this binary, for programs that are built together with an
// operator.
func BuildVersion() string { return readStamp("").version }

func stampOf(explicit, release string, info *debug.BuildInfo) stamp {
	s := stamp{version: develVersion, commit: unknownStamp, date: unknownStamp}
	for _, version := range []string{explicit, release, info.Main.Version} {
		if version != "" && version != "(devel)" {
			s.version = version
			break
		}
	}
	modified := false
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			s.commit = setting.Value
		case "vcs.time":
			s.date = setting.Value
		case "vcs.modified":
			modified = setting.Value == "true"
		}
	}
	if modified && s.commit != unknownStamp {
		s.commit += dirtySuffix
	}
	return s
}

// VersionLine returns the version, the commit, the date of the commit and the version of Go in one
// line, for --version:
//
//	v1.2.3 commit=0a1b2c3d4e5f60718293a4b5c6d7e8f901234567 date=2026-01-02T03:04:05Z goversion=go1.26.0
func (o *Options) VersionLine() string {
	return fmt.Sprintf("%s commit=%s date=%s goversion=%s", o.Version, o.Commit, o.Date, runtime.Version())
}

// invalidInMetricName matches characters that a name of a program may have, and a name of a metric may not.
var invalidInMetricName = regexp.MustCompile(`^[0-9]|[^a-zA-Z0-9_]`)

// buildInfo returns the metric <name of the program>_build_info. Its value is always 1.
func (o *Options) buildInfo() prometheus.Collector {
	metric := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: invalidInMetricName.ReplaceAllString(o.Name, "_") + "_build_info",
		Help: "1, with the version, the commit, the date of the commit and the version of Go that the program was built from.",
	}, []string{"version", "commit", "date", "goversion"})
	metric.WithLabelValues(o.Version, o.Commit, o.Date, runtime.Version()).Set(1)
	return metric
}

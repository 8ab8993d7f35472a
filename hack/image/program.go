// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

// stamp identifies the build of a binary.
type stamp struct {
	// version is the version of the release, or else the version in the build information.
	version string
	// revision is the commit, with the suffix "+dirty" after uncommitted changes. It is empty
	// without a repository.
	revision string
	// created is the time of the commit, or the Unix epoch without a repository.
	created time.Time
}

// program is a binary of the operator.
type program struct {
	stamp
	content []byte
	info    *debug.BuildInfo
	// settings are the settings of info by key.
	settings map[string]string
}

// platform returns the operating system and the architecture, such as linux-amd64.
func (p program) platform() string {
	return p.settings["GOOS"] + "-" + p.settings["GOARCH"]
}

// modified reports whether the program was built with uncommitted changes.
func (p program) modified() bool {
	return p.settings["vcs.modified"] == "true"
}

// checkRunsAlone refuses a program that would not start in an empty Linux image.
func (p program) checkRunsAlone() error {
	switch {
	case p.settings["GOOS"] != "linux":
		return errors.New("not a Linux binary (build it with GOOS=linux)")
	case p.settings["CGO_ENABLED"] != "0" || p.settings["-buildmode"] != "exe":
		return errors.New("not static (build it with CGO_ENABLED=0 and -buildmode=exe)")
	}
	return nil
}

// readPrograms reads binaries of the same build, one per platform.
func readPrograms(version string, paths ...string) ([]program, error) {
	programs, platforms := make([]program, 0, len(paths)), map[string]bool{}
	for _, path := range paths {
		p, err := readProgram(version, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		programs = append(programs, p)
		if p.stamp != programs[0].stamp {
			return nil, fmt.Errorf("%s: is of another commit or version than %s; build both again", path, paths[0])
		}
		if platforms[p.platform()] {
			return nil, fmt.Errorf("%s: is the second binary for %s", path, p.platform())
		}
		platforms[p.platform()] = true
	}
	if len(programs) == 0 {
		return nil, errors.New("no binaries")
	}
	return programs, nil
}

func readProgram(version, path string) (program, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return program{}, fmt.Errorf("read the binary: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(content))
	if err != nil {
		return program{}, fmt.Errorf("not built by the go command: %w", err)
	}
	p := program{content: content, info: info, settings: map[string]string{}}
	for _, setting := range info.Settings {
		p.settings[setting.Key] = setting.Value
	}
	p.version = cmp.Or(version, strings.Trim(info.Main.Version, "()"), "devel")
	p.revision = p.settings["vcs.revision"]
	if p.modified() {
		p.revision += "+dirty"
	}
	committed, err := time.Parse(time.RFC3339, cmp.Or(p.settings["vcs.time"], "1970-01-01T00:00:00Z"))
	if err != nil {
		return program{}, fmt.Errorf("the time of the commit: %w", err)
	}
	p.created = committed.UTC()
	return p, nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/example/demoapp-controller/hack/image/program"
)

// TestMakeRelease makes a release of the operator for one platform from a clone of this repository, and pushes its image.
func TestMakeRelease(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), registry.Logger(log.New(t.Output(), "", 0))))
	t.Cleanup(server.Close)
	repository := strings.TrimPrefix(server.URL, "http://") + "/team/demoapp-controller"
	source, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	clone := program.Clone(t, source)
	platform := "linux/" + runtime.GOARCH

	program.Command(t, clone, nil, "make", "release", "VERSION=v1.2.3", "PUSH="+repository+":v1.2.3",
		"PLATFORMS="+platform, "RELEASE_PLATFORMS="+platform)

	output := filepath.Join(clone, "bin", "release")
	tag, digest, _ := strings.Cut(strings.TrimSpace(read(t, filepath.Join(output, "image-digest.txt"))), "@")
	if tag != repository+":v1.2.3" {
		t.Errorf("the image is %s, want %s:v1.2.3", tag, repository)
	}
	reference, err := name.ParseReference(tag)
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := remote.Get(reference, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	if pushed.Digest.String() != digest {
		t.Errorf("the pushed image is %s, want %s", pushed.Digest, digest)
	}
	binary := filepath.Join(output, "demoapp-controller-v1.2.3-linux-"+runtime.GOARCH)
	if err := os.Chmod(binary, 0o700); err != nil {
		t.Fatal(err)
	}
	version := program.Command(t, output, nil, binary, "--version")
	if !strings.HasPrefix(version, "demoapp-controller v1.2.3 commit=") {
		t.Errorf("the version of the binary is %q", version)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// lastStage returns the instructions of the last stage of the Dockerfile that match a pattern, with
// the subexpressions.
func lastStage(t *testing.T, pattern string) [][]string {
	t.Helper()
	_, stage, ok := strings.Cut(read(t, root, "Dockerfile"), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the last stage of the Dockerfile has a base image")
	}
	return regexp.MustCompile(pattern).FindAllStringSubmatch(stage, -1)
}

// dockerfileLabels returns the labels that the Dockerfile sets with arguments.
func dockerfileLabels(t *testing.T, args map[string]string) map[string]string {
	t.Helper()
	labels := map[string]string{}
	for _, label := range lastStage(t, `(\S+)="(.*?)"`) {
		labels[label[1]] = os.Expand(label[2], func(name string) string { return args[name] })
	}
	return labels
}

// checkDockerfile checks that the Dockerfile describes an image with a configuration, apart from
// labels.
func checkDockerfile(t *testing.T, config v1.Config) {
	t.Helper()
	want := []string{
		"COPY --from=build --chmod=0444 /out/ca-certificates.crt /" + certificatesFile,
		"COPY --from=build --chmod=0555 /out/demoapp-controller /demoapp-controller",
		"WORKDIR " + config.WorkingDir,
		"USER " + config.User,
		fmt.Sprintf("ENTRYPOINT %q", config.Entrypoint),
	}
	var got []string
	for _, instruction := range lastStage(t, `(?m)^[A-Z]+ .*$`) {
		if !strings.HasPrefix(instruction[0], "ARG ") && !strings.HasPrefix(instruction[0], "LABEL ") {
			got = append(got, instruction[0])
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("instructions = %q, want %q", got, want)
	}
}

// The flags of the build are in the Makefile alone.
func TestDockerfileBuildsWithMake(t *testing.T) {
	dockerfile := read(t, root, "Dockerfile")

	const build = "GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION BINARY=/out/demoapp-controller\n"
	if strings.Count(dockerfile, "make build ") != 1 || !strings.Contains(dockerfile, build) || strings.Contains(dockerfile, "go build") {
		t.Errorf("the Dockerfile does not build the operator once, with %q:\n%s", build, dockerfile)
	}
}

// The commit of the labels is marked in the same way as the commit of the binary. Without a
// version, the label has the default of the Dockerfile.
func TestDockerBuildPassesAllArguments(t *testing.T) {
	repository := newRepository(t)
	makefile, err := filepath.Abs(root + "/Makefile")
	must(t, err)
	dryRun := func(version string) string {
		return command(t, repository, nil, "make", "--no-print-directory", "--dry-run", "--file", makefile, "docker-build",
			"docker-push", "CONTAINER_TOOL=podman", "IMG=registry.example.com/operator:v1.2.3", "VERSION="+version)
	}
	revision := "--build-arg REVISION=" + strings.TrimSpace(command(t, repository, nil, "git", "rev-parse", "HEAD"))
	want := []string{
		"podman build --tag registry.example.com/operator:v1.2.3 ", "podman push registry.example.com/operator:v1.2.3\n",
		"--build-arg VERSION=v1.2.3 ", revision + " ", "--build-arg CREATED=" + commitTime + " ",
		"--build-arg GO_VERSION=", "--build-arg SOURCE_DATE_EPOCH=",
	}
	for name := range strings.FieldsSeq(lastStage(t, `ARG VERSION=devel (.*)`)[0][1]) {
		want = append(want, "--build-arg "+name+"=")
	}

	released := dryRun("v1.2.3")
	write(t, "package main\n", repository, "new.go")
	modified := dryRun("")

	for _, part := range want {
		if !strings.Contains(released, part) {
			t.Errorf("make docker-build docker-push lacks %q: %s", part, released)
		}
	}
	if !strings.Contains(modified, revision+"+dirty ") || strings.Contains(modified, "--build-arg VERSION") {
		t.Errorf("with changes and without a version, make docker-build runs %s", modified)
	}
}

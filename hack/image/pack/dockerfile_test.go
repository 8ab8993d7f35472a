// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package pack

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/example/demoapp-controller/hack/image/program"
)

// root is the root of the repository.
const root = "../../.."

// parseDockerfile returns the stages of the Dockerfile.
func parseDockerfile(t *testing.T) []instructions.Stage {
	t.Helper()
	file, err := os.Open(root + "/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parsed, err := parser.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stages
}

// dockerImage is what the last stage of a Dockerfile says.
type dockerImage struct {
	base, user, directory string
	entrypoint            []string
	labels                map[string]string
	// files are the modes of the copied files by path.
	files map[string]string
	args  []string
}

func readStage(t *testing.T, stage instructions.Stage, args []string) dockerImage {
	t.Helper()
	image := dockerImage{base: stage.BaseName, labels: map[string]string{}, files: map[string]string{}}
	words := shell.NewLex('\\')
	for _, instruction := range stage.Commands {
		switch c := instruction.(type) {
		case *instructions.UserCommand:
			image.user = c.User
		case *instructions.WorkdirCommand:
			image.directory = c.Path
		case *instructions.EntrypointCommand:
			image.entrypoint = c.CmdLine
		case *instructions.CopyCommand:
			image.files[c.DestPath] = c.Chmod
		case *instructions.ArgCommand:
			for _, arg := range c.Args {
				image.args = append(image.args, arg.Key)
			}
		case *instructions.LabelCommand:
			for _, label := range c.Labels {
				value, _, err := words.ProcessWord(label.Value, shell.EnvsFromSlice(args))
				if err != nil {
					t.Fatal(err)
				}
				image.labels[label.Key] = value
			}
		default:
			t.Errorf("the last stage has the instruction %s, which the image without an engine does not have", c.Name())
		}
	}
	return image
}

func TestDockerfileDescribesTheSameImage(t *testing.T) {
	s := stamp{version: "v1.2.3", revision: "0a1b", created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	binary := program.Build(t, program.NewRepository(t), "amd64")[0]
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	image, err := imageOf("demoapp-controller", content, "amd64", s)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	stages := parseDockerfile(t)

	got := readStage(t, stages[len(stages)-1], []string{"VERSION=v1.2.3", "REVISION=0a1b", "CREATED=2026-01-02T03:04:05Z"})

	if got.base != "scratch" || got.user != config.Config.User || got.directory != config.Config.WorkingDir {
		t.Errorf("base %s, user %s, directory %s", got.base, got.user, got.directory)
	}
	if !slices.Equal(got.entrypoint, config.Config.Entrypoint) {
		t.Errorf("entrypoint = %q, want %q", got.entrypoint, config.Config.Entrypoint)
	}
	if !maps.Equal(got.labels, config.Config.Labels) {
		t.Errorf("labels = %v, want %v", got.labels, config.Config.Labels)
	}
	if want := map[string]string{"/" + certificatesFile: "0444", "/demoapp-controller": "0555"}; !maps.Equal(got.files, want) {
		t.Errorf("files = %v, want %v", got.files, want)
	}
}

// The flags of the build are in the Makefile alone.
func TestDockerfileBuildsWithMake(t *testing.T) {
	stage := parseDockerfile(t)[0]
	var commands []string
	for _, instruction := range stage.Commands {
		if c, ok := instruction.(*instructions.RunCommand); ok {
			commands = append(commands, strings.Join(c.CmdLine, " "))
		}
	}

	builds := slices.DeleteFunc(slices.Clone(commands), func(c string) bool { return !strings.Contains(c, "make build ") })

	if len(builds) != 1 || !strings.Contains(builds[0], "GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION BINARY=/out/demoapp-controller") {
		t.Errorf("commands that build the operator: %q", builds)
	}
	for _, c := range commands {
		if strings.Contains(c, "go build") {
			t.Errorf("%q has build flags of its own", c)
		}
	}
}

func TestDockerBuildPassesAllArguments(t *testing.T) {
	stages := parseDockerfile(t)
	image := readStage(t, stages[len(stages)-1], nil)

	out := program.Command(t, root, nil, "make", "--no-print-directory", "--dry-run", "docker-build", "docker-push",
		"CONTAINER_TOOL=podman", "IMG=registry.example.com/operator:v1.2.3", "VERSION=v1.2.3")

	for _, arg := range append([]string{"GO_VERSION", "SOURCE_DATE_EPOCH"}, image.args...) {
		if !strings.Contains(out, "--build-arg "+arg+"=") {
			t.Errorf("make docker-build does not pass %s: %s", arg, out)
		}
	}
	for _, part := range []string{
		"podman build --tag registry.example.com/operator:v1.2.3 ", "--build-arg VERSION=v1.2.3 ",
		"podman push registry.example.com/operator:v1.2.3\n",
	} {
		if !strings.Contains(out, part) {
			t.Errorf("make docker-build docker-push lacks %q: %s", part, out)
		}
	}
}

// Without a version, the label has the default of the Dockerfile.
func TestDockerBuildWithoutVersion(t *testing.T) {
	out := program.Command(t, root, nil, "make", "--no-print-directory", "--dry-run", "docker-build", "VERSION=")

	if strings.Contains(out, "--build-arg VERSION") {
		t.Errorf("make docker-build passes an empty version: %s", out)
	}
}

// The commit of the labels is marked as that of the binary is.
func TestDockerBuildMarksUncommittedChanges(t *testing.T) {
	clone := program.Clone(t, program.NewRepository(t))
	makefile, err := filepath.Abs(root + "/Makefile")
	if err != nil {
		t.Fatal(err)
	}
	revision := strings.TrimSpace(program.Command(t, clone, nil, "git", "rev-parse", "HEAD"))
	build := func() string {
		return program.Command(t, clone, nil, "make", "--no-print-directory", "--dry-run", "--file", makefile, "docker-build")
	}

	clean := build()
	if err := os.WriteFile(filepath.Join(clone, "new.go"), []byte("package main\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	modified := build()

	if want := "--build-arg REVISION=" + revision + " "; !strings.Contains(clean, want) {
		t.Errorf("without changes, make docker-build lacks %q: %s", want, clean)
	}
	if want := "--build-arg REVISION=" + revision + "+dirty "; !strings.Contains(modified, want) {
		t.Errorf("with changes, make docker-build lacks %q: %s", want, modified)
	}
}

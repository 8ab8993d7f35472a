// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRequiredVersion(t *testing.T) {
	const mod = `module example.com/m

require example.com/single v0.1.0

require (
	example.com/a v1.2.3
	example.com/b v4.5.6 // indirect
)

replace example.com/c => example.com/d v7.8.9
`
	tests := []struct {
		module, want string
		wantErr      bool
	}{
		{module: "example.com/single", want: "v0.1.0"},
		{module: "example.com/a", want: "v1.2.3"},
		{module: "example.com/b", want: "v4.5.6"},
		{module: "example.com/c", wantErr: true},
		{module: "example.com", wantErr: true},
	}
	for _, test := range tests {
		t.Run(test.module, func(t *testing.T) {
			got, err := requiredVersion([]byte(mod), test.module)
			if got != test.want || (err != nil) != test.wantErr {
				t.Errorf("got %q, %v; want %q, error: %t", got, err, test.want, test.wantErr)
			}
		})
	}
}

func TestLinkerFlags(t *testing.T) {
	got := linkerFlags("v1.36.3")
	for _, want := range []string{".gitVersion=v1.36.3 ", ".gitMajor=1 ", ".gitMinor=36 "} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not contain %q", got, want)
		}
	}
}

func TestBuildKeyDependsOnEveryPart(t *testing.T) {
	keys := []string{
		buildKey("mod", "sum", "flags"),
		buildKey("mod2", "sum", "flags"),
		buildKey("mod", "sum2", "flags"),
		buildKey("mod", "sum", "flags2"),
		buildKey("mods", "um", "flags"),
	}
	slices.Sort(keys)
	if unique := slices.Compact(slices.Clone(keys)); len(unique) != len(keys) {
		t.Errorf("keys collide: %q", keys)
	}
	if buildKey([]byte("mod"), "sum") != buildKey("mod", []byte("sum")) {
		t.Error("the same parts give different keys")
	}
}

func TestControlPlaneOfVersion(t *testing.T) {
	own, err := controlPlane("")
	if err != nil {
		t.Fatal(err)
	}
	ownMinor, err := own.minor()
	if err != nil {
		t.Fatal(err)
	}
	for _, minor := range []int{30, 33, 36, 37} {
		version := fmt.Sprintf("1.%d", minor)
		t.Run(version, func(t *testing.T) {
			set, err := controlPlane(version)
			if err != nil {
				t.Fatal(err)
			}
			got, err := set.minor()
			if err != nil || got != minor {
				t.Errorf("the programs have the minor version %d, %v", got, err)
			}
			if (minor == ownMinor) != bytes.Equal(set.mod, goMod) || len(set.sum) == 0 {
				t.Errorf("built from another module than expected, with %d bytes of sums", len(set.sum))
			}
			// All parts of Kubernetes have the same version.
			for line := range strings.Lines(string(set.mod)) {
				if fields := strings.Fields(line); len(fields) == 4 && fields[1] == "=>" && !strings.HasPrefix(fields[3], fmt.Sprintf("v0.%d.", minor)) {
					t.Errorf("%q is of another version", line)
				}
			}
		})
	}

	for _, version := range []string{"1.2", "latest", "v1.33", "../1.33"} {
		if _, err := controlPlane(version); err == nil || !strings.Contains(err.Error(), "want one of 1.30, ") {
			t.Errorf("%s: %v, want the versions that there are", version, err)
		}
	}
}

func TestProgress(t *testing.T) {
	tests := []struct {
		took            time.Duration
		compiled, total int
		want            string
	}{
		{20 * time.Second, 0, 2000, "20s"},
		{time.Minute, 500, 2000, "1m0s, 500 of 2000 packages, about 3 min left"},
		{100 * time.Second, 1999, 2000, "1m40s, 1999 of 2000 packages, about 1 min left"},
		{6 * time.Minute, 2000, 2000, "6m0s, the last programs are linked"},
	}
	for _, test := range tests {
		t.Run(test.want, func(t *testing.T) {
			if got := progress(test.took, test.compiled, test.total); got != test.want {
				t.Errorf("got %q", got)
			}
		})
	}
}

// The binaries can only be built if go.mod requires their modules, which the tool block ensures.
func TestBinariesAreTheToolsOfGoMod(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "tool").Output()
	if err != nil {
		t.Fatalf("go list tool: %v", err)
	}
	want := strings.Fields(string(out))
	kubernetes, err := controlPlane("")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, bin := range slices.Concat(kubernetes.binaries, surroundings.binaries, nodePrograms.binaries) {
		got = append(got, bin.importPath)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestEnsureUsesWhatIsThere(t *testing.T) {
	l := layout{cache: t.TempDir()}
	// An empty PATH makes every attempt to build fail.
	t.Setenv("PATH", t.TempDir())
	var progress strings.Builder
	b := builder{set: surroundings, layout: l, progress: &progress}
	if _, err := b.ensure(t.Context()); err == nil {
		t.Fatal("built without a go command")
	}
	remains, err := filepath.Glob(filepath.Join(l.binaries(), "[^.]*"))
	if err != nil || len(remains) > 0 {
		t.Errorf("a failed build left %q, %v", remains, err)
	}

	_, line, _ := strings.Cut(progress.String(), " into ")
	dir, _, _ := strings.Cut(line, "\n")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatalf("progress does not say where the binaries go: %q: %v", progress.String(), err)
	}
	if got, err := b.ensure(t.Context()); err != nil || got != dir {
		t.Errorf("got %q, %v; want %q", got, err, dir)
	}
}

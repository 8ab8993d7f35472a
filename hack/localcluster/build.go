// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// The program embeds its module files, and so builds the same binaries wherever it is started.
var (
	//go:embed go.mod
	goMod []byte
	//go:embed go.sum
	goSum []byte
	//go:embed coredns.mod
	coreDNSMod []byte
	//go:embed coredns.sum
	coreDNSSum []byte
	//go:embed coredns/main.go
	coreDNSMain []byte
	// otherKubernetes has the module files of further versions of Kubernetes, such as 1.33.mod and 1.33.sum. update.sh wrote them.
	//go:embed kubernetes/*.mod kubernetes/*.sum
	otherKubernetes embed.FS
)

// progressInterval is the time between two progress messages of a build.
const progressInterval = 20 * time.Second

// binary is one program of the control plane.
type binary struct {
	name       string
	importPath string
	// output is the file name that "go build" chooses, if that is not name.
	output string
}

// programSet is a module and the programs that are built from it.
type programSet struct {
	// what names the programs in messages.
	what string
	// time is how long the first build takes.
	time string
	// main is the module whose version is the version of the programs.
	main     string
	mod, sum []byte
	// files are the further files of the module, by their paths.
	files    map[string][]byte
	binaries []binary
}

// kubernetes is the module of Kubernetes.
const kubernetes = "k8s.io/kubernetes"

// surroundings are the programs of a control plane that are not of Kubernetes. They are tools of go.mod.
var surroundings = programSet{what: "etcd and kwok", time: "2 to 3 minutes", main: kubernetes, mod: goMod, sum: goSum, binaries: []binary{
	{name: "etcd", importPath: "go.etcd.io/etcd/server/v3", output: "server"},
	{name: "kwok", importPath: "sigs.k8s.io/kwok/cmd/kwok"},
}}

// controlPlane returns the programs of Kubernetes of a control plane, and kubectl for machines without one. The version has the
// form 1.33. Without it, or with the version of go.mod, the programs are tools of go.mod.
func controlPlane(version string) (programSet, error) {
	set := programSet{what: "the control plane", time: "5 to 10 minutes", main: kubernetes, mod: goMod, sum: goSum, binaries: []binary{
		{name: apiServerName, importPath: "k8s.io/kubernetes/cmd/kube-apiserver"},
		{name: "kube-controller-manager", importPath: "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{name: "kube-scheduler", importPath: "k8s.io/kubernetes/cmd/kube-scheduler"},
		{name: "kubectl", importPath: "k8s.io/kubernetes/cmd/kubectl"},
	}}
	own, err := set.minor()
	if err != nil || version == "" || version == fmt.Sprintf("1.%d", own) {
		return set, err
	}
	name := "kubernetes/" + version
	if set.mod, err = otherKubernetes.ReadFile(name + ".mod"); err != nil {
		others, err := fs.Glob(otherKubernetes, "kubernetes/*.mod")
		if err != nil {
			return programSet{}, err
		}
		versions := []string{fmt.Sprintf("1.%d", own)}
		for _, other := range others {
			versions = append(versions, strings.TrimSuffix(filepath.Base(other), ".mod"))
		}
		slices.Sort(versions)
		return programSet{}, fmt.Errorf("--kubernetes=%s: want one of %s", version, strings.Join(versions, ", "))
	}
	set.sum, err = otherKubernetes.ReadFile(name + ".sum")
	return set, err
}

// version returns the version of the programs, such as v1.33.13.
func (s programSet) version() (string, error) { return requiredVersion(s.mod, s.main) }

// minor returns the minor version of the programs, such as 33.
func (s programSet) minor() (int, error) {
	version, err := s.version()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.Split(version, ".")[1])
}

// nodePrograms are the further programs of a node that runs containers. They are tools of go.mod, too.
var nodePrograms = programSet{what: "the programs of a node", time: "1 to 2 minutes", main: kubernetes, mod: goMod, sum: goSum, binaries: []binary{
	{name: "kubelet", importPath: "k8s.io/kubernetes/cmd/kubelet"},
	{name: "kube-proxy", importPath: "k8s.io/kubernetes/cmd/kube-proxy"},
}}

// coreDNS is the server of names of such a node. Its module is apart, because it requires newer versions of some modules than the
// control plane.
var coreDNS = programSet{
	what: "CoreDNS", time: "1 to 2 minutes", main: "github.com/coredns/coredns", mod: coreDNSMod, sum: coreDNSSum,
	// The constraint keeps the file out of the module of localcluster.
	files:    map[string][]byte{"coredns/main.go": bytes.Replace(coreDNSMain, []byte("//go:build ignore\n"), nil, 1)},
	binaries: []binary{{name: "coredns", importPath: "./coredns"}},
}

// builder builds the binaries of a set.
type builder struct {
	set      programSet
	layout   layout
	progress io.Writer
}

// ensure returns the folder of the binaries. It builds them if they are missing.
func (b builder) ensure(ctx context.Context) (string, error) {
	version, err := b.set.version()
	if err != nil {
		return "", err
	}
	flags := linkerFlags(version)
	dir := filepath.Join(b.layout.binaries(), buildKey(b.set.keyParts(flags)...))
	if isDir(dir) {
		return dir, nil
	}
	lock, err := waitLock(ctx, filepath.Join(b.layout.binaries(), ".lock"), func() {
		fmt.Fprintln(b.progress, "waiting for another process that builds "+b.set.what)
	})
	if err != nil {
		return "", err
	}
	defer lock.release()
	if isDir(dir) {
		return dir, nil
	}
	return dir, b.build(ctx, dir, version, flags)
}

// keyParts are the inputs of the binaries of the set.
func (s programSet) keyParts(flags string) []any {
	parts := []any{s.mod, s.sum, flags, runtime.GOOS + "/" + runtime.GOARCH}
	for _, bin := range s.binaries {
		parts = append(parts, bin.name)
	}
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		parts = append(parts, path, s.files[path])
	}
	return parts
}

// build builds all binaries into a temporary folder and renames that folder to dir, so that dir is
// complete or absent.
func (b builder) build(ctx context.Context, dir, version, flags string) (err error) {
	// All builders use the same name, since the lock admits one at a time. Remains of a killed
	// builder are removed first.
	work := filepath.Join(b.layout.binaries(), "building")
	if err := os.RemoveAll(work); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	// The module is written from the embedded files. go build needs no more than those and the
	// package paths.
	module, out := filepath.Join(work, "module"), filepath.Join(work, "bin")
	if err := writeFiles(module, map[string][]byte{"go.mod": b.set.mod, "go.sum": b.set.sum}); err != nil {
		return err
	}
	for name, content := range b.set.files {
		path := filepath.Join(module, name)
		if err := writeFiles(filepath.Dir(path), map[string][]byte{filepath.Base(path): content}); err != nil {
			return err
		}
	}

	begin := time.Now()
	fmt.Fprintf(b.progress, "building %s (%s %s) into %s\n", b.set.what, b.set.main, version, dir)
	fmt.Fprintf(b.progress, "this happens once and takes %s on 2 cores; a later up takes seconds\n", b.set.time)
	if err := os.Mkdir(out, 0o700); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	if err := b.goBuild(ctx, module, out, flags); err != nil {
		return err
	}
	if err := os.Rename(out, dir); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	fmt.Fprintf(b.progress, "built in %s\n", time.Since(begin).Round(time.Second))
	return nil
}

// goBuild builds all binaries into the folder out. One go command links one binary while it
// compiles for the next. When ctx ends, goBuild ends the go command with the compilers that it
// started.
func (b builder) goBuild(ctx context.Context, module, out, flags string) error {
	args := []string{"-C", module, "-mod=readonly", "-trimpath", "-ldflags", flags}
	var programs []string
	for _, bin := range b.set.binaries {
		programs = append(programs, bin.importPath)
	}
	var stale bytes.Buffer
	list := slices.Concat([]string{"list"}, args, []string{"-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}, programs)
	if err := runGo(ctx, list, &stale, io.Discard); err != nil {
		return err
	}
	compiled := &lineCounter{}
	stop := b.reportProgress(compiled, bytes.Count(stale.Bytes(), []byte("\n")))
	err := runGo(ctx, slices.Concat([]string{"build"}, args, []string{"-v", "-o", out}, programs), io.Discard, compiled)
	stop()
	if err != nil {
		return err
	}
	for _, bin := range b.set.binaries {
		if bin.output == "" {
			continue
		}
		if err := os.Rename(filepath.Join(out, bin.output), filepath.Join(out, bin.name)); err != nil {
			return fmt.Errorf("build %s: %w", b.set.what, err)
		}
	}
	return nil
}

// maxErrorText is the length of the end of a failed command's output that its error has, in bytes.
const maxErrorText = 8 << 10

// runGo runs a go command. The error has the end of the output on stderr.
func runGo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0") // As the Makefile, which shares the compiled packages.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = stdout, io.MultiWriter(stderr, &output)
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("go %s: %w", args[0], context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", args[0], err, output.Bytes()[max(0, output.Len()-maxErrorText):])
	}
	return nil
}

// lineCounter counts the lines that are written to it.
type lineCounter struct{ lines atomic.Int64 }

// Write implements io.Writer.
func (c *lineCounter) Write(text []byte) (int, error) {
	c.lines.Add(int64(bytes.Count(text, []byte("\n"))))
	return len(text), nil
}

// reportProgress prints at intervals how much of the build is done, until the returned function is
// called.
func (b builder) reportProgress(compiled *lineCounter, total int) (stop func()) {
	begin := time.Now()
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				fmt.Fprintln(b.progress, "building "+b.set.what+": "+progress(time.Since(begin), int(compiled.lines.Load()), total))
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// progress describes a build of which some packages are compiled. The time left is in whole
// minutes. It supposes that each remaining package takes as long as the average so far, linking
// included.
func progress(took time.Duration, compiled, total int) string {
	took = took.Round(time.Second)
	switch {
	case compiled == 0:
		return took.String()
	case compiled >= total:
		return fmt.Sprintf("%s, the last programs are linked", took)
	}
	left := took * time.Duration(total-compiled) / time.Duration(compiled)
	return fmt.Sprintf("%s, %d of %d packages, about %d min left", took, compiled, total, (left+time.Minute-1)/time.Minute)
}

// requiredVersion returns the version of module that the go.mod file mod requires.
func requiredVersion(mod []byte, module string) (string, error) {
	for line := range strings.Lines(string(mod)) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module && fields[1] != "=>" {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("go.mod does not require %s", module)
}

// linkerFlags makes the binaries small, and sets their version, which would be v0.0.0.
func linkerFlags(version string) string {
	const pkg = "k8s.io/component-base/version."
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s -X %[1]sgitTreeState=clean",
		pkg, version, major, minor)
}

// buildKey derives the name of a set of binaries from everything that they depend on.
func buildKey(parts ...any) string {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%s\x00", part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// writeFiles creates dir and writes files into it, readable by the owner only.
func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

//go:embed images.yaml
var imageRecipes []byte

// basePackage is in all images.
const basePackage = "busybox"

// packedVersion changes the names of all archives.
const packedVersion = "1"

// recipe describes an image that is made of the files of Debian packages. images.yaml documents the fields.
type recipe struct {
	Name       string            `json:"name"`
	Tags       []string          `json:"tags"`
	Packages   []string          `json:"packages"`
	Without    []string          `json:"without"`
	Remove     []string          `json:"remove"`
	Users      []string          `json:"users"`
	Folders    []string          `json:"folders"`
	Links      map[string]string `json:"links"`
	Files      map[string]string `json:"files"`
	User       string            `json:"user"`
	Env        []string          `json:"env"`
	Entrypoint []string          `json:"entrypoint"`
	Command    []string          `json:"command"`
	Workdir    string            `json:"workdir"`
	Ports      []string          `json:"ports"`
	Stop       string            `json:"stop"`
}

// readRecipes returns the recipes of images.yaml.
func readRecipes() ([]recipe, error) {
	var recipes []recipe
	if err := yaml.UnmarshalStrict(imageRecipes, &recipes); err != nil {
		return nil, fmt.Errorf("images.yaml: %w", err)
	}
	return recipes, nil
}

// imageStore has the archives of the images in a folder. It makes those that are missing, as root on a Debian system.
type imageStore struct {
	dir      string
	progress io.Writer
}

// ensure returns the paths of the archives of all images.
func (s imageStore) ensure(ctx context.Context) ([]string, error) {
	recipes, err := readRecipes()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create folder: %w", err)
	}
	lock, err := waitLock(ctx, filepath.Join(s.dir, ".lock"), func() {
		fmt.Fprintln(s.progress, "waiting for another process that makes images")
	})
	if err != nil {
		return nil, err
	}
	defer lock.release()
	var archives []string
	for _, r := range recipes {
		archive := filepath.Join(s.dir, r.Name+"-"+buildKey(r.parts()...)+".tar")
		archives = append(archives, archive)
		if _, err := os.Stat(archive); err == nil {
			continue
		}
		begin := time.Now()
		fmt.Fprintf(s.progress, "making the image %s of Debian packages\n", r.Name)
		if err := s.make(ctx, r, archive); err != nil {
			return nil, fmt.Errorf("make the image %s: %w", r.Name, err)
		}
		fmt.Fprintf(s.progress, "made in %s\n", time.Since(begin).Round(time.Second))
	}
	return archives, nil
}

// parts are the inputs of the archive of a recipe. Newer packages do not change it.
func (r recipe) parts() []any {
	content, err := json.Marshal(r)
	return []any{packedVersion, basePackage, runtime.GOARCH, content, err}
}

// make makes the archive of a recipe.
func (s imageStore) make(ctx context.Context, r recipe, archive string) (err error) {
	work, err := os.MkdirTemp(s.dir, "making-")
	if err != nil {
		return fmt.Errorf("create folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	root := filepath.Join(work, "root")
	if err := s.unpackPackages(ctx, r, work, root); err != nil {
		return err
	}
	if err := r.finish(ctx, root); err != nil {
		return err
	}
	layer := filepath.Join(work, "layer.tar")
	// The same files give the same layer.
	if err := run(ctx, work, "tar", "--create", "--file="+layer, "--sort=name", "--numeric-owner", "--mtime=@0", "--directory="+root, "."); err != nil {
		return err
	}
	packed := filepath.Join(work, "image.tar")
	if err := r.pack(layer, packed); err != nil {
		return err
	}
	if err := os.Rename(packed, archive); err != nil {
		return fmt.Errorf("keep the archive: %w", err)
	}
	return nil
}

// unpackPackages downloads the packages of a recipe, and unpacks them into root. No script of a package runs.
func (s imageStore) unpackPackages(ctx context.Context, r recipe, work, root string) error {
	debs := filepath.Join(s.dir, "debs")
	status := filepath.Join(work, "status")
	for _, dir := range []string{filepath.Join(debs, "partial"), root} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // root is the root folder of an image.
			return fmt.Errorf("create folder: %w", err)
		}
	}
	if err := os.WriteFile(status, nil, 0o600); err != nil {
		return fmt.Errorf("write file: %w", err)
	}
	// Debian has merged /bin, /sbin and /lib into /usr.
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := errors.Join(os.MkdirAll(filepath.Join(root, "usr", dir), 0o755), os.Symlink("usr/"+dir, filepath.Join(root, dir))); err != nil { //nolint:gosec // As above.
			return fmt.Errorf("create folder: %w", err)
		}
	}
	apt := slices.Concat([]string{
		"install", "--yes", "--quiet=2", "--no-install-recommends", "--option=Dir::State::status=" + status,
		"--option=Debug::NoLocking=1", "--option=APT::Sandbox::User=root",
	}, []string{basePackage}, r.Packages)
	// Apt would not print the files that the folder has already.
	list, err := output(ctx, work, "apt-get", append([]string{"--print-uris", "--option=Dir::Cache::archives=" + work}, apt...)...)
	if err != nil {
		return err
	}
	if err := run(ctx, work, "apt-get", append([]string{"--download-only", "--option=Dir::Cache::archives=" + debs}, apt...)...); err != nil {
		return err
	}
	files, err := packageFiles(list)
	if err != nil {
		return err
	}
	if files == nil { // apt prints only packages that it would download.
		return errors.New("apt names no packages; run apt-get update")
	}
	for _, file := range files {
		name, _, _ := strings.Cut(file, "_")
		if slices.Contains(r.Without, name) {
			continue
		}
		const unpack = `dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --directory="$2" ` +
			`--exclude=./usr/share/doc --exclude=./usr/share/man --exclude=./usr/share/locale --exclude=./usr/share/info`
		if err := run(ctx, work, "bash", "-o", "pipefail", "-c", unpack, "bash", filepath.Join(debs, file), root); err != nil {
			return err
		}
	}
	return nil
}

// packageFiles returns the names of the files in the output of apt-get --print-uris: lines of 'URI' file size hash.
func packageFiles(list []byte) ([]string, error) {
	var files []string
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(line, "'") {
			continue
		}
		if _, err := url.Parse(strings.Trim(fields[0], "'")); err != nil || fields[1] != filepath.Base(fields[1]) {
			return nil, fmt.Errorf("unexpected line of apt-get: %q", line)
		}
		files = append(files, fields[1])
	}
	return files, nil
}

// finish adds to root the files that the scripts of packages would create, and the files of the recipe.
func (r recipe) finish(ctx context.Context, root string) error {
	at := func(name string) string { return filepath.Join(root, name) }
	var errs []error
	for _, name := range r.Remove {
		errs = append(errs, os.RemoveAll(at(name)))
	}
	for _, dir := range []string{"/etc", "/proc", "/sys", "/dev", "/root", "/home", "/run", "/var/lib", "/var/log", "/var/cache", "/usr/local/bin"} {
		errs = append(errs, os.MkdirAll(at(dir), 0o755)) //nolint:gosec // As in all images.
	}
	if err := os.Symlink("../run", at("/var/run")); err != nil && !errors.Is(err, os.ErrExist) {
		errs = append(errs, err)
	}
	errs = append(errs, os.MkdirAll(at("/tmp"), 0o777), os.Chmod(at("/tmp"), 0o777|os.ModeSticky), r.writeUsers(at("/etc"))) //nolint:gosec // All users write to /tmp.
	for _, folder := range r.Folders {
		errs = append(errs, makeFolder(root, folder))
	}
	for name, target := range r.Links {
		errs = append(errs, os.MkdirAll(filepath.Dir(at(name)), 0o755), os.Symlink(target, at(name))) //nolint:gosec // As above.
	}
	for name, content := range r.Files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "/usr/local/bin/") {
			mode = 0o755
		}
		errs = append(errs, os.MkdirAll(filepath.Dir(at(name)), 0o755), os.WriteFile(at(name), []byte(content), mode)) //nolint:gosec // As above.
	}
	errs = append(errs, linkBusybox(ctx, root))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("complete the files: %w", err)
	}
	return nil
}

// writeUsers writes the users and groups of the image.
func (r recipe) writeUsers(etc string) error {
	users, groups := "root:x:0:0:root:/root:/bin/sh\n", "root:x:0:\n"
	for _, user := range append(slices.Clone(r.Users), "nobody:65534:/nonexistent") {
		fields := strings.Split(user, ":")
		if len(fields) != 3 {
			return fmt.Errorf("user %q: want name:uid:home", user)
		}
		users += fmt.Sprintf("%[1]s:x:%[2]s:%[2]s::%[3]s:/bin/sh\n", fields[0], fields[1], fields[2])
		groups += fmt.Sprintf("%s:x:%s:\n", fields[0], fields[1])
	}
	return errors.Join(
		os.WriteFile(filepath.Join(etc, "passwd"), []byte(users), 0o644), //nolint:gosec // Everyone reads it.
		os.WriteFile(filepath.Join(etc, "group"), []byte(groups), 0o644), //nolint:gosec // Everyone reads it.
	)
}

// makeFolder makes a folder of a recipe: path:uid:mode.
func makeFolder(root, folder string) error {
	fields := strings.Split(folder, ":")
	if len(fields) != 3 {
		return fmt.Errorf("folder %q: want path:uid:mode", folder)
	}
	dir := filepath.Join(root, fields[0])
	uid, uidErr := strconv.Atoi(fields[1])
	mode, modeErr := strconv.ParseUint(fields[2], 8, 12)
	special := os.FileMode(0)
	for bit, flag := range map[uint64]os.FileMode{0o4000: os.ModeSetuid, 0o2000: os.ModeSetgid, 0o1000: os.ModeSticky} {
		if mode&bit != 0 {
			special |= flag
		}
	}
	return errors.Join(uidErr, modeErr, os.MkdirAll(dir, 0o755), os.Chown(dir, uid, uid), os.Chmod(dir, os.FileMode(mode&0o777)|special)) //nolint:gosec // As the recipe says.
}

// linkBusybox links the commands that the image lacks to busybox.
func linkBusybox(ctx context.Context, root string) error {
	applets, err := output(ctx, root, filepath.Join(root, "bin", "busybox"), "--list")
	if err != nil {
		return err
	}
	for _, applet := range strings.Fields(string(applets)) {
		missing := true
		for _, dir := range []string{"bin", "sbin"} {
			if _, err := os.Lstat(filepath.Join(root, dir, applet)); err == nil {
				missing = false
			}
		}
		if !missing {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", applet)); err != nil {
			return fmt.Errorf("link %s: %w", applet, err)
		}
	}
	return nil
}

// pack writes an archive as docker save does, with one layer.
func (r recipe) pack(layer, archive string) (err error) {
	digest, size, err := digestOf(layer)
	if err != nil {
		return err
	}
	ports := map[string]struct{}{}
	for _, port := range r.Ports {
		ports[port] = struct{}{}
	}
	env := r.Env
	if len(env) == 0 {
		env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	}
	type object = map[string]any
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": object{
			"User": r.User, "Env": env, "Entrypoint": r.Entrypoint, "Cmd": r.Command, "WorkingDir": r.Workdir,
			"ExposedPorts": ports, "StopSignal": r.Stop,
		},
		"rootfs": object{"type": "layers", "diff_ids": []string{"sha256:" + digest}},
	})
	if err != nil {
		return fmt.Errorf("encode the configuration: %w", err)
	}
	sum := sha256.Sum256(config)
	configName := hex.EncodeToString(sum[:]) + ".json"
	manifest, err := json.Marshal([]object{{"Config": configName, "RepoTags": r.Tags, "Layers": []string{digest + "/layer.tar"}}})
	if err != nil {
		return fmt.Errorf("encode the manifest: %w", err)
	}
	return writeArchive(archive, layer, path.Join(digest, "layer.tar"), size, map[string][]byte{configName: config, "manifest.json": manifest})
}

func writeArchive(archive, layer, layerName string, size int64, files map[string][]byte) (err error) {
	file, err := os.OpenFile(archive, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	source, err := os.Open(layer)
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	defer source.Close()
	out := tar.NewWriter(file)
	add := func(name string, size int64, content io.Reader) {
		if err == nil {
			err = out.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg})
		}
		if err == nil {
			_, err = io.Copy(out, content)
		}
	}
	for name, content := range files {
		add(name, int64(len(content)), bytes.NewReader(content))
	}
	add(layerName, size, source)
	return errors.Join(err, out.Close())
}

// digestOf returns the SHA-256 and the size of a file.
func digestOf(name string) (string, int64, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", 0, fmt.Errorf("digest: %w", err)
	}
	defer file.Close()
	hash := sha256.New()
	size, err := io.Copy(hash, file)
	if err != nil {
		return "", 0, fmt.Errorf("digest: %w", err)
	}
	return hex.EncodeToString(hash.Sum(nil)), size, nil
}

// run runs a program in a folder. The error has the output of the program.
func run(ctx context.Context, dir, name string, args ...string) error {
	_, err := output(ctx, dir, name, args...)
	return err
}

// output is run for a program whose output matters.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.Bytes(), nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// restartPause is the time after which a process of the node that ended is started again.
const restartPause = time.Second

// nodeInit is the first process of the namespaces of a real node. It mounts the file system of the node, starts the other
// processes, and starts them again when they end. Its own end ends them all.
type nodeInit struct {
	dir              string
	programs, images []string
	running          map[int]nodeProcess
}

// nodeProcess is a process that nodeInit keeps running.
type nodeProcess struct {
	name, path string
	args       []string
}

// checkNode returns an error that names the programs and features missing on this machine.
func checkNode() error {
	if os.Geteuid() != 0 {
		return errors.New("a real node needs root, for namespaces, mounts and containers")
	}
	// PATH of a user's shell may lack the folders of programs for root.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		return fmt.Errorf("set PATH: %w", err)
	}
	var missing []string
	for _, program := range []string{"containerd", "ctr", "runc", "nft", "ip", "mount", "/usr/lib/cni/bridge", "/usr/lib/cni/host-local"} {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("a real node needs %s; Debian has them in containerd, runc, containernetworking-plugins, nftables and iproute2",
			strings.Join(missing, ", "))
	}
	return nil
}

// ownNetwork gives the calling thread, and the processes that it starts, their own network namespace, with the bridge that has
// the node's address.
func ownNetwork() error {
	if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
		return fmt.Errorf("create a network namespace: %w", err)
	}
	for _, args := range [][]string{
		{"link", "set", "lo", "up"},
		{"link", "add", "node0", "type", "bridge"},
		{"address", "add", nodeAddress + "/32", "dev", "node0"},
		{"link", "set", "node0", "up"},
		// kube-proxy replaces the addresses of Services after the kernel has found a route.
		{"route", "add", serviceNetwork, "dev", "node0"},
	} {
		if out, err := exec.CommandContext(context.Background(), "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
		}
	}
	// These settings belong to the network namespace of the thread.
	for _, name := range []string{"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"} {
		if err := os.WriteFile("/proc/sys/"+name, []byte("1"), 0); err != nil {
			return fmt.Errorf("set %s; the kernel module br_netfilter may be missing: %w", strings.ReplaceAll(name, "/", "."), err)
		}
	}
	return nil
}

// run mounts, starts the processes and never returns without an error.
func (n *nodeInit) run(ctx context.Context) error {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-end
		os.Exit(0) // The kernel kills all other processes of the namespace.
	}()
	images, err := openAll(n.images)
	if err != nil {
		return err
	}
	programs, err := openAll(n.programs)
	if err != nil {
		return err
	}
	if err := n.mountAll(); err != nil {
		return err
	}
	// The folders may be below a folder that a mount hides.
	search := os.Getenv("PATH")
	for _, dir := range programs {
		search += fmt.Sprintf(":/proc/1/fd/%d", dir.Fd())
	}
	if err := os.Setenv("PATH", search); err != nil {
		return fmt.Errorf("set PATH: %w", err)
	}
	n.running = map[int]nodeProcess{}
	config := mountedInstance + "/node/config/"
	if err := n.start(nodeProcess{containerdName, "containerd", []string{"--config", config + "containerd.toml"}}); err != nil {
		return err
	}
	if err := importImages(ctx, images); err != nil {
		return err
	}
	for _, process := range []nodeProcess{
		{coreDNSName, "coredns", []string{"-conf", config + "Corefile"}},
		{kubeProxyName, "kube-proxy", []string{"--config=" + config + "kube-proxy.yaml"}},
		{kubeletName, "kubelet", []string{
			"--config=" + config + "kubelet.yaml", "--kubeconfig=" + mountedInstance + "/config/kubelet.kubeconfig",
			"--hostname-override=" + realNodeName, "--node-ip=" + nodeAddress,
		}},
	} {
		if err := n.start(process); err != nil {
			return err
		}
	}
	return n.reap()
}

// start starts a process, which appends to its log.
func (n *nodeInit) start(p nodeProcess) error {
	path, err := exec.LookPath(p.path)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	log, err := os.OpenFile(filepath.Join(mountedInstance, "logs", p.name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	defer log.Close()
	pid, err := syscall.ForkExec(path, append([]string{path}, p.args...), &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{^uintptr(0), log.Fd(), log.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	n.running[pid] = p
	return nil
}

// reap waits for each process of the namespace that has lost its parent, and starts the node's processes again.
func (n *nodeInit) reap() error {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for processes: %w", err)
		}
		p, ours := n.running[pid]
		if !ours {
			continue
		}
		delete(n.running, pid)
		fmt.Fprintf(os.Stderr, "%s ended (exit code %d, signal %d) and is started again\n", p.name, status.ExitStatus(), status.Signal())
		<-time.After(restartPause)
		if err := n.start(p); err != nil {
			return err
		}
	}
}

// mountAll makes the file system of the node. Everything that its processes write is in the instance's folder or in memory.
func (n *nodeInit) mountAll() error {
	folders, err := openAll([]string{n.dir, filepath.Join(n.dir, "node", "lib"), filepath.Join(n.dir, "node", "log")})
	if err != nil {
		return err
	}
	var errs []error
	mount := func(source, target, kind string, flags uintptr) {
		if err := syscall.Mount(source, target, kind, flags, ""); err != nil {
			errs = append(errs, fmt.Errorf("mount %s: %w", target, err))
		}
	}
	// The folders may be below a folder that a mount hides.
	bind := func(folder *os.File, target string) {
		mount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), target, "", syscall.MS_BIND)
	}

	// No mount reaches the machine. Mounts of containers follow the node's mounts.
	mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE)
	mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED)
	mount("tmpfs", "/run", "tmpfs", 0)
	errs = append(errs, os.MkdirAll(mountedInstance, 0o755)) //nolint:gosec // As /run has it.
	bind(folders[0], mountedInstance)
	bind(folders[1], "/var/lib")
	bind(folders[2], "/var/log")
	mount("proc", "/proc", "proc", syscall.MS_NOSUID|syscall.MS_NODEV|syscall.MS_NOEXEC)
	for _, tunable := range kubeletTunables {
		errs = append(errs, hideTunable(tunable.name, tunable.value))
	}
	list, err := os.ReadFile(mountedInstance + "/node/config/cni.conflist")
	errs = append(errs, err, writeFiles("/run/localcluster/cni", map[string][]byte{"10-localcluster.conflist": list}))
	return errors.Join(errs...)
}

// kubeletTunables are settings of the machine that a kubelet changes if they have other values.
var kubeletTunables = []struct{ name, value string }{
	{"vm/overcommit_memory", "1"},
	{"vm/panic_on_oom", "0"},
	{"kernel/panic", "10"},
	{"kernel/panic_on_oops", "1"},
	{"kernel/keys/root_maxkeys", "1000000"},
	{"kernel/keys/root_maxbytes", "25000000"},
}

// hideTunable shows the node a value that the machine does not have.
func hideTunable(name, value string) error {
	const hidden = "/run/localcluster/tunables"
	target, file := "/proc/sys/"+name, strings.ReplaceAll(name, "/", ".")
	if _, err := os.Stat(target); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := writeFiles(hidden, map[string][]byte{file: []byte(value + "\n")}); err != nil {
		return err
	}
	if err := syscall.Mount(filepath.Join(hidden, file), target, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("hide %s: %w", name, err)
	}
	return nil
}

// openAll opens files or folders.
func openAll(paths []string) ([]*os.File, error) {
	var files []*os.File
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open: %w", err)
		}
		files = append(files, file)
	}
	return files, nil
}

// importImages waits for containerd and gives it the archives, two at a time.
func importImages(ctx context.Context, archives []*os.File) error {
	const socket = mountedInstance + "/node/containerd.sock"
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err != nil {
			return false, nil //nolint:nilerr // It does not listen yet.
		}
		return true, conn.Close()
	})
	if err != nil {
		return err
	}
	for pair := range slices.Chunk(archives, 2) {
		done := make(chan error)
		for _, archive := range pair {
			go func() { done <- importImage(ctx, socket, archive) }()
		}
		var errs []error
		for range pair {
			errs = append(errs, <-done)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func importImage(ctx context.Context, socket string, archive *os.File) error {
	cmd := exec.CommandContext(ctx, "ctr", "--address", socket, "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("import %s: %w: %s", archive.Name(), err, bytes.TrimSpace(out))
	}
	return nil
}

// cgroupRoots returns the folders of the hierarchies of control groups: one, or one for each controller.
func cgroupRoots() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil {
		return []string{root}
	}
	procs, _ := filepath.Glob(root + "/*/cgroup.procs") // The pattern is valid.
	var roots []string
	for _, file := range procs {
		// Links join controllers. A unified hierarchy next to hierarchies of the first version has no controller.
		dir := filepath.Dir(file)
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && filepath.Base(dir) != "unified" {
			roots = append(roots, dir)
		}
	}
	return roots
}

// createCgroups creates a control group, in which the kubelet creates the groups of the pods.
func createCgroups(name string) error {
	for _, root := range cgroupRoots() {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // As all control groups.
			return fmt.Errorf("create control group: %w", err)
		}
		// A group of the first version has no processors until they are assigned.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(root, file))
			if err != nil || filepath.Base(root) != "cpuset" {
				continue
			}
			if err := os.WriteFile(filepath.Join(dir, file), value, 0); err != nil { //nolint:gosec // The folder is one of the kernel's.
				return fmt.Errorf("create control group: %w", err)
			}
		}
	}
	return nil
}

// cgroupPatience is how long the processes of a control group may take to end after they were killed.
const cgroupPatience = 10 * time.Second

// removeCgroups removes a control group and those below it, whose processes end or have ended.
func removeCgroups(name string) error {
	var dirs []string
	// runc also creates groups in a unified hierarchy next to hierarchies of the first version.
	for _, root := range append(cgroupRoots(), "/sys/fs/cgroup/unified") {
		// A folder that is not there, or no more, is removed.
		_ = filepath.WalkDir(filepath.Join(root, name), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() {
				dirs = append(dirs, path)
			}
			return nil
		})
	}
	deadline := time.Now().Add(cgroupPatience)
	for _, dir := range slices.Backward(dirs) {
		err := syscall.Rmdir(dir)
		for errors.Is(err, syscall.EBUSY) && time.Now().Before(deadline) {
			<-time.After(pollInterval)
			err = syscall.Rmdir(dir)
		}
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("remove control group %s: %w", dir, err)
		}
	}
	return nil
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package postgresql

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

const (
	// binaries is where Debian has the servers, and major is their version.
	binaries, major = "/usr/lib/postgresql/15/bin", "15"
	scripts         = "../../../pkg/controller/kinds/postgresql/scripts"

	password            = `pass:word\ 'with" $(special) characters`
	replicationPassword = `replication:pass\word`
)

// database is a primary and its standbys, each a process of this machine in the place of a pod.
type database struct {
	t *testing.T
	// folder has the scripts, the credentials and the volumes.
	folder      string
	credential  *syscall.Credential
	credentials string
	// variables are the environment of all scripts.
	variables map[string]string
}

// newDatabase returns a database of servers that do not run yet, and its credentials.
func newDatabase(t *testing.T) *database {
	t.Helper()
	if _, err := os.Stat(filepath.Join(binaries, "postgres")); err != nil {
		t.Fatalf("install the Debian package postgresql: %v", err)
	}
	version, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "postgres"), "--version").Output()
	expect.NoError(t, err)
	t.Logf("%s", version)
	account, err := user.Lookup("postgres")
	expect.NoError(t, err)
	uid, err1 := strconv.ParseUint(account.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(account.Gid, 10, 32)
	folder, err3 := os.MkdirTemp("", "pg") //nolint:usetesting // The path of a socket has at most 107 characters.
	expect.NoError(t, errors.Join(err1, err2, err3))
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(folder)) })
	d := &database{
		t: t, folder: folder, credentials: filepath.Join(folder, "credentials"),
		credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), NoSetGroups: true},
		variables: map[string]string{
			"PATH": binaries + ":" + os.Getenv("PATH"), "STATEFULSET": "db", "SERVICE": "invalid", "LISTEN": "127.0.0.1",
			"CREDENTIALS": filepath.Join(folder, "credentials"), "SCRIPTS": filepath.Join(folder, "scripts"),
			"POLL_SECONDS": "0.05", "WAL_MB": "48",
		},
	}
	expect.NoError(t, os.CopyFS(d.variables["SCRIPTS"], os.DirFS(scripts)))
	expect.NoError(t, os.Mkdir(d.credentials, 0o755))
	d.setCredential("username", "app")
	d.setCredential("password", password)
	d.setCredential("replication-password", replicationPassword)
	for ordinal := range 3 {
		d.variables[fmt.Sprintf("HOST_%d", ordinal)] = "127.0.0.1"
		d.variables[fmt.Sprintf("PORT_%d", ordinal)] = strconv.Itoa(cluster.FreePort(t.Context(), t))
	}
	expect.NoError(t, d.handOver(folder))
	return d
}

// handOver gives a folder to the user postgres, because servers refuse to run as root.
func (d *database) handOver(folder string) error {
	return filepath.Walk(folder, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Lchown(path, int(d.credential.Uid), int(d.credential.Gid)))
	})
}

// setCredential sets a key of the Secret, as the kubelet does.
func (d *database) setCredential(key, value string) {
	d.t.Helper()
	path := filepath.Join(d.credentials, key)
	expect.NoError(d.t, errors.Join(os.WriteFile(path, []byte(value), 0o440), d.handOver(d.credentials)))
}

// server is one pod.
type server struct {
	*database

	ordinal int
	process *exec.Cmd
	output  *log
	exited  chan struct{}
}

// log is the output of a container.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(data)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start starts the server with this ordinal, as the kubelet does.
func (d *database) start(ordinal int) *server {
	d.t.Helper()
	s := &server{database: d, ordinal: ordinal, output: &log{}, exited: make(chan struct{})}
	// The kubelet makes the directories of a pod. The second one belongs to one pod, so it is empty
	// in a new pod.
	for _, folder := range []string{s.volume(), s.run()} {
		expect.NoError(d.t, errors.Join(os.MkdirAll(folder, 0o755), os.Lchown(folder, int(d.credential.Uid), int(d.credential.Gid))))
	}
	s.process = s.command("start.sh")
	s.process.Stdout, s.process.Stderr = s.output, s.output
	expect.NoError(d.t, s.process.Start())
	go func() {
		defer close(s.exited)
		_ = s.process.Wait() // Tests read the exit code.
	}()
	d.t.Cleanup(func() {
		s.kill()
		if d.t.Failed() {
			d.t.Logf("output of server %d:\n%s", ordinal, s.output)
		}
	})
	return s
}

func (s *server) volume() string { return filepath.Join(s.folder, "volume-"+strconv.Itoa(s.ordinal)) }

func (s *server) run() string { return filepath.Join(s.folder, "run-"+strconv.Itoa(s.ordinal)) }

// command returns a command that runs a script in the pod.
func (s *server) command(script string, args ...string) *exec.Cmd {
	command := exec.Command("sh", append([]string{filepath.Join(s.variables["SCRIPTS"], script)}, args...)...) //nolint:noctx // A test ends the server, also after its context.
	variables := maps.Clone(s.variables)
	variables["POD_NAME"] = fmt.Sprintf("db-%d", s.ordinal)
	variables["VOLUME"], variables["RUN"] = s.volume(), s.run()
	for name, value := range variables {
		command.Env = append(command.Env, name+"="+value)
	}
	command.Dir = s.folder
	command.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return command
}

// exec runs a script in the pod, and returns its output.
func (s *server) exec(script string, args ...string) (string, error) {
	output, err := s.command(script, args...).CombinedOutput()
	return string(output), err
}

// awaitReady waits until the readiness probe succeeds.
func (s *server) awaitReady() {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, fmt.Sprintf("server %d is ready", s.ordinal), func(context.Context) (bool, error) {
		s.mustRun()
		output, err := s.exec("ready.sh")
		if err != nil {
			return false, errors.New(output)
		}
		return true, nil
	})
}

// mustRun ends the test if the server has ended.
func (s *server) mustRun() {
	s.t.Helper()
	select {
	case <-s.exited:
		s.t.Fatalf("server %d has ended:\n%s", s.ordinal, s.output)
	default:
	}
}

// awaitOutput waits until the output of the container has the text.
func (s *server) awaitOutput(text string) {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, fmt.Sprintf("server %d writes %q", s.ordinal, text), func(context.Context) (bool, error) {
		return strings.Contains(s.output.String(), text), errors.New(s.output.String())
	})
}

// awaitExit waits until the container has ended, and returns its exit code.
func (s *server) awaitExit() int {
	s.t.Helper()
	select {
	case <-s.exited:
	case <-s.t.Context().Done():
	}
	return s.process.ProcessState.ExitCode()
}

// stop stops the server, as the kubelet does: the image's stop signal is SIGINT.
func (s *server) stop() {
	s.t.Helper()
	expect.NoError(s.t, s.process.Process.Signal(syscall.SIGINT))
	<-s.exited
}

// kill ends the server and its child processes without notice.
func (s *server) kill() {
	_ = syscall.Kill(-s.process.Process.Pid, syscall.SIGKILL) // It may have ended.
	<-s.exited
	expect.NoError(s.t, os.RemoveAll(s.run()))
}

// loseVolume removes the volume of a server that does not run.
func (s *server) loseVolume() {
	s.t.Helper()
	expect.NoError(s.t, os.RemoveAll(s.volume()))
}

func (s *server) port() string { return s.variables[fmt.Sprintf("PORT_%d", s.ordinal)] }

// query runs a query over the network as this role, and returns the rows.
func (s *server) query(role, secret, name, query string) (string, error) {
	command := exec.CommandContext(s.t.Context(), filepath.Join(binaries, "psql"), "--no-psqlrc", "--no-password", "--tuples-only", "--no-align",
		"--host=127.0.0.1", "--port="+s.port(), "--username="+role, "--dbname="+name, "--command="+query)
	command.Env = []string{"PGPASSWORD=" + secret, "PGCONNECT_TIMEOUT=10"}
	output, err := command.CombinedOutput()
	return strings.TrimSpace(string(output)), err
}

// do runs a query as the owner of the database, which must succeed.
func (s *server) do(query string) string {
	s.t.Helper()
	output, err := s.query("app", password, "app", query)
	if err != nil {
		s.t.Fatalf("%s: %v: %s", query, err, output)
	}
	return output
}

// awaitRows waits until the table has this number of rows.
func (s *server) awaitRows(want string) {
	s.t.Helper()
	cluster.Eventually(s.t.Context(), s.t, fmt.Sprintf("server %d has %s rows", s.ordinal, want), func(context.Context) (bool, error) {
		output, err := s.query("app", password, "app", "SELECT count(*) FROM rows") //nolint:contextcheck // It has the test's context.
		return err == nil && output == want, fmt.Errorf("%s: %w", output, err)
	})
}

// superuser runs a query on the socket of the pod.
func (s *server) superuser(query string) string {
	s.t.Helper()
	command := s.command("lib.sh")
	command.Args = []string{"sh", "-c", `. "$SCRIPTS/lib.sh"; local_sql --command="$QUERY"`}
	command.Env = append(command.Env, "QUERY="+query)
	output, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s: %v: %s", query, err, output)
	}
	return strings.TrimSpace(string(output))
}

// arguments returns the command lines of all processes of the user of the servers.
func (d *database) arguments() string {
	d.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	expect.NoError(d.t, err)
	var lines []string
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil {
			lines = append(lines, strings.ReplaceAll(string(data), "\x00", " "))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

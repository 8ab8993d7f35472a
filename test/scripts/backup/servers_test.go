// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/dump"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// username and password log in to the databases. The password has every character that quoting can
// lose, and a # that a quote does not enclose.
const username, password = "app", `p"a\s#w': $x%{}`

// database is a database server on loopback, which ends with the test.
type database struct {
	// kind is the value of spec.source.type.
	kind string
	port int
	// execute runs SQL in a database as the administrator, and returns the rows.
	execute func(database, sql string) string
	// create makes a database that the user of the Backup owns.
	create func(database string)
	// socket is the directory of the socket, in which the administrator of PostgreSQL logs in.
	socket string
}

// databases starts a server of each kind.
var databases = map[string]func(t *testing.T) *database{
	"postgresql": func(t *testing.T) *database { t.Helper(); return startPostgreSQL(t) },
	"mysql":      func(t *testing.T) *database { t.Helper(); return startMariaDB(t) },
}

// startPostgreSQL starts a server with settings, such as "max_connections=20".
func startPostgreSQL(t *testing.T, settings ...string) *database {
	t.Helper()
	bin := "/usr/lib/postgresql/15/bin"
	account := accountOf(t, "postgres", "postgresql")
	dir, port := directory(t, account), cluster.FreePort(t.Context(), t)
	require(t, filepath.Join(bin, "initdb"), "postgresql")
	command(t, account, filepath.Join(bin, "initdb"), "--pgdata="+dir+"/data", "--username=admin", "--auth-local=trust",
		"--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync")
	args := []string{"-D", dir + "/data", "-p", strconv.Itoa(port), "-k", dir}
	for _, setting := range append(settings, "listen_addresses=127.0.0.1", "fsync=off") {
		args = append(args, "-c", setting)
	}
	serve(t, account, syscall.SIGINT, filepath.Join(bin, "postgres"), args...)
	d := &database{kind: "postgresql", port: port, socket: dir}
	d.execute = func(database, sql string) string {
		return command(t, account, "psql", "--host="+dir, "--port="+strconv.Itoa(port), "--username=admin", "--no-psqlrc", "--quiet",
			"--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1", "--dbname="+database, "--command="+sql)
	}
	d.create = func(database string) { d.execute("postgres", "CREATE DATABASE "+database+" OWNER "+username) }
	awaitPort(t, port, func() error {
		return commandOf(account, filepath.Join(bin, "pg_isready"), "--host="+dir, "--port="+strconv.Itoa(port)).Run()
	})
	t.Logf("PostgreSQL %s", d.execute("postgres", "SHOW server_version"))
	d.execute("postgres", "CREATE ROLE "+username+" LOGIN PASSWORD '"+strings.ReplaceAll(password, "'", "''")+"'")
	return d
}

// startMariaDB starts a server with options of the command.
func startMariaDB(t *testing.T, options ...string) *database {
	t.Helper()
	account := accountOf(t, "mysql", "mariadb-server")
	dir, port := directory(t, account), cluster.FreePort(t.Context(), t)
	require(t, "mariadbd", "mariadb-server")
	// A server that starts removes temporary tables of other servers from the default, /tmp.
	temporary := "--tmpdir=" + dir
	command(t, account, "mariadb-install-db", "--no-defaults", "--datadir="+dir+"/data", "--auth-root-authentication-method=normal",
		"--skip-test-db", temporary)
	socket := dir + "/socket"
	serve(t, account, syscall.SIGTERM, "mariadbd", append([]string{
		"--no-defaults", "--datadir=" + dir + "/data", temporary, "--socket=" + socket,
		"--port=" + strconv.Itoa(port), "--bind-address=127.0.0.1", "--pid-file=" + dir + "/pid", "--skip-log-bin",
	}, options...)...)
	d := &database{kind: "mysql", port: port}
	d.execute = func(database, sql string) string {
		return command(t, account, "mariadb", "--no-defaults", "--socket="+socket, "--user=root", "--batch", "--skip-column-names",
			"--execute="+sql, "--database="+database)
	}
	d.create = func(database string) {
		d.execute("mysql", "CREATE DATABASE "+database+"; GRANT ALL ON "+database+".* TO "+username)
	}
	awaitPort(t, port, func() error {
		return commandOf(account, "mariadb-admin", "--no-defaults", "--socket="+socket, "--user=root", "ping").Run()
	})
	t.Log(d.execute("mysql", "SELECT version()"))
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
	d.execute("mysql", "CREATE USER "+username+" IDENTIFIED BY '"+quoted+"'")
	return d
}

// accountOf returns the account that a Debian package creates. Database servers refuse to run as
// root.
func accountOf(t *testing.T, name, debianPackage string) *user.User {
	t.Helper()
	account, err := user.Lookup(name)
	if err != nil {
		t.Fatalf("there is no user %s: install the Debian package %s", name, debianPackage)
	}
	return account
}

func lookUp(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	expect.NoError(t, err)
	return path
}

func require(t *testing.T, program, debianPackage string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("there is no program %s: install the Debian package %s", program, debianPackage)
	}
}

// directory returns a directory that the account owns, and into which all accounts may look.
func directory(t *testing.T, account *user.User) string {
	t.Helper()
	dir := t.TempDir()
	credential := credentialOf(account)
	for _, err := range []error{os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o755)} {
		expect.NoError(t, err)
	}
	if os.Geteuid() == 0 {
		expect.NoError(t, os.Chown(dir, int(credential.Uid), int(credential.Gid)))
	}
	return dir
}

func credentialOf(account *user.User) *syscall.Credential {
	uid, _ := strconv.ParseUint(account.Uid, 10, 32)
	gid, _ := strconv.ParseUint(account.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// commandOf returns a command that runs as the account, if the tests run as root.
func commandOf(account *user.User, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), name, args...) // A server ends by its own signal.
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credentialOf(account)}
	}
	return cmd
}

func command(t *testing.T, account *user.User, name string, args ...string) string {
	t.Helper()
	output, err := commandOf(account, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, output)
	}
	return strings.TrimSpace(string(output))
}

// serve starts a server, which gets the signal at the end of the test.
func serve(t *testing.T, account *user.User, end os.Signal, name string, args ...string) {
	t.Helper()
	cmd := commandOf(account, name, args...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	expect.NoError(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(end)
		_ = cmd.Wait()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("log of %s:\n%s", name, text)
		}
		_ = log.Close()
	})
}

// awaitPort returns when the server is ready.
func awaitPort(t *testing.T, port int, ready func() error) {
	t.Helper()
	cluster.Eventually(t.Context(), t, fmt.Sprintf("a server at port %d", port), func(context.Context) (bool, error) {
		err := ready()
		return err == nil, err
	})
}

// accessKey and secretKey are the keys that the bucket accepts.
const accessKey, secretKey = "access-key", "secret/key+with=signs"

// store is a server of buckets.
type store struct {
	t       *testing.T
	url     string
	backend gofakes3.Backend
}

// startStore starts a server with the bucket "backups". It refuses requests without accessKey.
func startStore(t *testing.T) *store {
	t.Helper()
	backend := s3mem.New()
	expect.NoError(t, backend.CreateBucket("backups"))
	handler := gofakes3.New(backend).Server()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential="+accessKey+"/") {
			w.Header().Set("Content-Type", "application/xml")
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Error><Code>InvalidAccessKeyId</Code><Message>The key is unknown.</Message></Error>")
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return &store{t: t, url: server.URL, backend: backend}
}

// put stores a file.
func (s *store) put(name string) {
	s.t.Helper()
	s.write(name, "x")
}

// write stores a file with a content.
func (s *store) write(name, content string) {
	s.t.Helper()
	_, err := s.backend.PutObject("backups", name, map[string]string{}, strings.NewReader(content), int64(len(content)), nil)
	expect.NoError(s.t, err)
}

// read returns the content of a file.
func (s *store) read(name string) string {
	s.t.Helper()
	object, err := s.backend.GetObject("backups", name, nil)
	expect.NoError(s.t, err)
	content, err := io.ReadAll(object.Contents)
	expect.NoError(s.t, err)
	return string(content)
}

// files returns the names of all files but the owner objects, sorted.
func (s *store) files() []string {
	s.t.Helper()
	list, err := s.backend.ListBucket("backups", nil, gofakes3.ListBucketPage{MaxKeys: 1000})
	expect.NoError(s.t, err)
	var names []string
	for _, object := range list.Contents {
		if !strings.HasSuffix(object.Key, ".owner") {
			names = append(names, object.Key)
		}
	}
	slices.Sort(names)
	return names
}

// run is a pod of a Backup: its scripts, its volumes and its environment.
type run struct {
	t *testing.T
	// dir is the volume of the dump.
	dir         string
	root        string
	environment map[string]string
	// destination is the destination of the Backup.
	destination backupv1.Destination
	// logins is the directory of Secrets with another login; empty without such Secrets.
	logins string
}

// user64999 has no entry in the database of users, like the user of the pods.
var user64999 = &user.User{Uid: "64999", Gid: "64999"}

// newRun returns a run of the Backup "orders" in namespace "shop", with the environment that the
// operator gives to its pods. Programs log their arguments.
func newRun(t *testing.T, source backupv1.Source, destination backupv1.Destination) *run {
	t.Helper()
	require(t, "rclone", "rclone")
	root := directory(t, user64999)
	r := &run{t: t, root: root, dir: filepath.Join(root, "backup"), environment: map[string]string{}, destination: destination}
	pod := dump.Pod(backupOf(source, destination), dump.Settings{ConfigMap: "orders-scripts", Retention: 24 * 60 * 60, Namespace: "namespace-1"})
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		r.setEnvironment(container)
	}
	r.environment["PATH"], r.environment["TERMINATION_LOG"] = filepath.Join(root, "bin"), filepath.Join(root, "termination-log")
	for _, dir := range []string{"backup", "secrets", "bin", "scripts"} {
		expect.NoError(t, os.Mkdir(filepath.Join(root, dir), 0o755))
		if os.Geteuid() == 0 {
			expect.NoError(t, os.Chown(filepath.Join(root, dir), 64999, 64999))
		}
	}
	for name, script := range dump.Files(backupOf(source, destination)) {
		expect.NoError(t, os.WriteFile(filepath.Join(root, "scripts", name), []byte(script), 0o644))
	}
	r.install()
	t.Cleanup(r.assertNoSecretInArguments)
	return r
}

// backupOf returns the Backup "orders" in namespace "shop".
func backupOf(source backupv1.Source, destination backupv1.Destination) *backupv1.Backup {
	return &backupv1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders", UID: "uid-1"},
		Spec:       backupv1.BackupSpec{Source: source, Destination: destination},
	}
}

// setEnvironment adds the environment that a container has.
func (r *run) setEnvironment(container corev1ac.ContainerApplyConfiguration) {
	secrets := map[string]string{
		backupv1.KeyUsername: username, backupv1.KeyPassword: password,
		backupv1.KeyS3AccessKeyID: accessKey, backupv1.KeyS3SecretAccessKey: secretKey,
	}
	for _, env := range container.Env {
		switch {
		case env.ValueFrom != nil:
			secret := env.ValueFrom.SecretKeyRef
			r.environment[*env.Name] = secrets[*secret.Key]
			if login, err := os.ReadFile(filepath.Join(r.logins, *secret.Name, *secret.Key)); err == nil {
				r.environment[*env.Name] = string(login)
			}
		case env.Value != nil && strings.HasPrefix(*env.Value, "/"):
			r.environment[*env.Name] = r.root + *env.Value // A volume.
		case env.Value != nil:
			r.environment[*env.Name] = *env.Value
		}
	}
}

// install puts programs of this machine into the PATH of the scripts, behind a script that logs
// their arguments.
func (r *run) install() {
	r.t.Helper()
	for _, name := range []string{
		"awk", "cat", "cut", "date", "grep", "gzip", "mv", "rm", "sed", "sort", "tail", "tr", "wc", "sh",
		"pg_dump", "pg_restore", "psql", "mariadb-dump", "mariadb", "rclone",
	} {
		path, err := exec.LookPath(name)
		if err == nil {
			r.program(name, fmt.Sprintf(`exec %s "$@"`, path))
		}
	}
}

// program puts a program into the PATH of the scripts. It logs its arguments.
func (r *run) program(name, script string) {
	r.t.Helper()
	text := fmt.Sprintf("#!/bin/sh\nprintf '%%s\\n' \"%s $*\" >>%s/arguments\n%s\n", name, r.root, script)
	expect.NoError(r.t, os.WriteFile(filepath.Join(r.root, "bin", name), []byte(text), 0o755))
}

// arguments returns the command lines of the programs so far.
func (r *run) arguments() string {
	text, err := os.ReadFile(filepath.Join(r.root, "arguments"))
	if err != nil {
		return ""
	}
	return string(text)
}

func (r *run) assertNoSecretInArguments() {
	for _, secret := range []string{password, secretKey} {
		if strings.Contains(r.arguments(), secret) {
			r.t.Errorf("a secret is in the arguments of a program:\n%s", r.arguments())
		}
	}
}

// script runs a script, as a user other than root, and returns its exit code, its output and its
// termination message.
func (r *run) script(name string, args ...string) (code int, output, message string) {
	r.t.Helper()
	for _, file := range []string{"arguments", "termination-log"} {
		f, err := os.OpenFile(filepath.Join(r.root, file), os.O_CREATE|os.O_WRONLY, 0o666)
		expect.NoError(r.t, err)
		expect.NoError(r.t, f.Chmod(0o666))
		expect.NoError(r.t, f.Close())
	}
	expect.NoError(r.t, os.Truncate(filepath.Join(r.root, "termination-log"), 0))
	cmd := commandOf(user64999, "/bin/sh", append([]string{filepath.Join(r.root, "scripts", name)}, args...)...)
	cmd.Env = nil
	for name, value := range r.environment {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		r.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.root, "termination-log"))
	expect.NoError(r.t, err)
	for _, secret := range []string{password, secretKey} {
		if strings.Contains(string(out)+string(text), secret) {
			r.t.Errorf("a secret is in the output of %s:\n%s", name, out)
		}
	}
	return cmd.ProcessState.ExitCode(), string(out), string(text)
}

// succeed runs a script that has to succeed, and returns its output.
func (r *run) succeed(name string, args ...string) string {
	r.t.Helper()
	code, output, _ := r.script(name, args...)
	if code != 0 {
		r.t.Fatalf("%s ended with exit code %d:\n%s", name, code, output)
	}
	return output
}

// fail runs a script that has to fail with an exit code and a message.
func (r *run) fail(code int, message, name string, args ...string) {
	r.t.Helper()
	gotCode, output, gotMessage := r.script(name, args...)
	if gotCode != code || !strings.Contains(gotMessage, message) || strings.Contains(gotMessage, "\n") {
		r.t.Errorf("%s ended with exit code %d and message %q, want %d and a message with %q:\n%s", name, gotCode, gotMessage, code, message, output)
	}
}

// dumps returns the names of the files in the volume of the dump.
func (r *run) dumps() []string {
	r.t.Helper()
	entries, err := os.ReadDir(r.dir)
	expect.NoError(r.t, err)
	var names []string
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names
}

// source is a database of a server.
func source(d *database, name string) backupv1.Source {
	return backupv1.Source{Type: d.kind, Connection: backupv1.Connection{
		Host: "127.0.0.1", Port: int32(d.port), Database: name, CredentialsSecret: "login",
	}}
}

// destination is the bucket of a store.
func destination(s *store) backupv1.Destination {
	return backupv1.Destination{
		Type: backupv1.DestinationS3, Bucket: "backups", Prefix: "team/db", Endpoint: s.url, CredentialsSecret: "keys",
	}
}

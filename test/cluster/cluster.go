// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/example/demoapp-controller/test/repository"
)

// startTimeout bounds a start that also builds the binaries; stopTimeout bounds a stop.
const (
	startTimeout = 25 * time.Minute
	stopTimeout  = 30 * time.Second
)

// Options describe a control plane.
type Options struct {
	// Audit writes an audit log of every request, for AuditRequests.
	Audit bool
	// Nodes is the number of simulated nodes; default 2.
	Nodes int
	// RealNode adds a node that runs containers, which needs root and Linux. Without Nodes, it is the only node.
	RealNode bool
	// Images are archives of images for the real node, in addition to the images of hack/localcluster.
	Images []string
	// KeepNamespaces leaves the namespaces of tests. Their removal takes a fifth of the requests to
	// the control plane, which ends with the package.
	KeepNamespaces bool
	// Messages receives the progress of the build and the start; default os.Stderr.
	Messages io.Writer
}

// Cluster is a running control plane.
type Cluster struct {
	// Client, Dynamic and Mapper act as an administrator, without a rate limit.
	Client  kubernetes.Interface
	Dynamic dynamic.Interface
	Mapper  meta.ResettableRESTMapper

	root       string
	connection connection
	config     *rest.Config
	command    *exec.Cmd
	stdin      io.Closer
	exited     chan struct{}
	exitErr    error
	launcher   *launcher
	audit      *auditLog
	// keepNamespaces is Options.KeepNamespaces.
	keepNamespaces bool

	// operatorMutex guards builtOperator and operatorBinary. The first is the path of the operator
	// that was built here. The second is empty until its CRDs and RBAC are applied, too.
	operatorMutex  sync.Mutex
	builtOperator  string
	operatorBinary string
}

// connection is the line that "localcluster up --foreground" prints when it is ready.
type connection struct {
	Dir        string `json:"dir"`
	Server     string `json:"server"`
	Kubeconfig string `json:"kubeconfig"`
	AuditLog   string `json:"auditLog"`
	BinDir     string `json:"binDir"`
	LogDir     string `json:"logDir"`
	Version    string `json:"version"`
	Nodes      int    `json:"nodes"`
	PID        int    `json:"pid"`
}

// Main starts a control plane, hands it to use, runs the tests of m and stops the control plane. It
// returns the exit code for os.Exit.
func Main(m *testing.M, options Options, use func(*Cluster)) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := Start(ctx, options)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	use(c)
	return m.Run()
}

// Start starts a control plane and returns when pods can run on it. The first start on a machine
// builds the control plane, which takes minutes. ctx bounds the start; the control plane then runs
// until Stop, or until this process dies.
func Start(ctx context.Context, options Options) (_ *Cluster, err error) {
	root, err := repository.Root()
	if err != nil {
		return nil, err
	}
	c := &Cluster{root: root, exited: make(chan struct{}), launcher: newLauncher(), keepNamespaces: options.KeepNamespaces}
	defer func() { // The control plane is stopped after the end of ctx, too.
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if err := c.startCommand(ctx, options); err != nil {
		return nil, fmt.Errorf("start control plane: %w", err)
	}
	if err := c.newClients(); err != nil {
		return nil, err
	}
	if c.audit, err = newAuditLog(c.connection.AuditLog); err != nil {
		return nil, err
	}
	return c, nil
}

// startCommand runs localcluster and waits until it says how to connect.
func (c *Cluster) startCommand(ctx context.Context, options Options) error {
	// A binary of its own, not "go run": signals and waits then reach the program and not the go
	// command.
	dir, err := os.MkdirTemp("", "localcluster-")
	if err != nil {
		return err
	}
	// The program goes on without its file.
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "localcluster")
	if err := c.goBuild(ctx, filepath.Join(c.root, "hack", "localcluster"), binary, "."); err != nil {
		return err
	}
	// The end of ctx must not kill the command, which then could not clean up; closing its stdin
	// ends it.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), binary, options.arguments()...)
	// The components inherit it. A control plane for tests has memory to spare, and shares few
	// processors with the tests.
	cmd.Env = append([]string{"GOGC=400"}, os.Environ()...)
	var messages bytes.Buffer
	cmd.Stderr = io.MultiWriter(&messages, messagesOf(options))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close()
	cmd.Stdout = stdoutWriter
	err = c.launcher.start(cmd)
	// The command has its own copy; without ours, reading ends when the command does.
	_ = stdoutWriter.Close()
	if err != nil {
		return err
	}
	c.command, c.stdin = cmd, stdin
	go func() {
		c.exitErr = cmd.Wait()
		close(c.exited)
	}()

	stop := context.AfterFunc(ctx, func() { _ = stdin.Close() })
	defer stop()
	line, err := bufio.NewReader(stdout).ReadBytes('\n')
	if err != nil {
		<-c.exited
		return fmt.Errorf("%w\n%s", errors.Join(c.exitErr, context.Cause(ctx)), messages.Bytes())
	}
	if err := json.Unmarshal(line, &c.connection); err != nil {
		return fmt.Errorf("read %q: %w", line, err)
	}
	return nil
}

// arguments returns the command line of localcluster.
func (o Options) arguments() []string {
	args := []string{"up", "--foreground", fmt.Sprintf("--audit=%t", o.Audit)}
	if o.Nodes > 0 {
		args = append(args, fmt.Sprintf("--nodes=%d", o.Nodes))
	}
	if o.RealNode {
		args = append(args, "--node=real")
	}
	for _, image := range o.Images {
		args = append(args, "--image="+image)
	}
	return args
}

func messagesOf(options Options) io.Writer {
	if options.Messages != nil {
		return options.Messages
	}
	return os.Stderr
}

func (c *Cluster) newClients() error {
	config, err := clientcmd.BuildConfigFromFlags("", c.connection.Kubeconfig)
	if err != nil {
		return fmt.Errorf("administrator's kubeconfig: %w", err)
	}
	config.QPS = -1
	config.UserAgent = "integration-test"
	c.config = config
	if c.Client, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("create dynamic client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	c.Mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer))
	return nil
}

// Stop ends the control plane and waits for it. It fails when the control plane had failed by
// itself.
func (c *Cluster) Stop() error {
	var errs []error
	if c.command != nil {
		// Closing it twice, after the end of the context of Start, is not an error worth telling.
		_ = c.stdin.Close()
		select {
		case <-c.exited:
		case <-time.After(stopTimeout):
			errs = append(errs, fmt.Errorf("the control plane did not end within %s", stopTimeout), c.command.Process.Kill())
			<-c.exited
		}
		if c.exitErr != nil {
			errs = append(errs, fmt.Errorf("control plane: %w", c.exitErr))
		}
	}
	c.launcher.close()
	return errors.Join(errs...)
}

// AdminConfig returns a new configuration for a cluster administrator without a rate limit.
func (c *Cluster) AdminConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the path of the administrator's kubeconfig file.
func (c *Cluster) Kubeconfig() string { return c.connection.Kubeconfig }

// Dir returns the folder of the control plane, with its state file and certificates.
func (c *Cluster) Dir() string { return c.connection.Dir }

// Kubectl returns the path of a kubectl of the control plane's version.
func (c *Cluster) Kubectl() string { return filepath.Join(c.connection.BinDir, "kubectl") }

// Minor returns the minor version of Kubernetes, such as 33. The environment variable
// LOCALCLUSTER_KUBERNETES of hack/localcluster selects it. It is 0 if localcluster did not report it.
func (c *Cluster) Minor() int {
	parts := strings.Split(c.connection.Version, ".")
	if len(parts) < 2 {
		return 0
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return 0
	}
	return minor
}

// Root returns the root folder of the repository.
func (c *Cluster) Root() string { return c.root }

// goBuild builds the package pkg of the module in dir.
func (c *Cluster) goBuild(ctx context.Context, dir, out, pkg string, flags ...string) error {
	args := append([]string{"build", "-ldflags=-s -w", "-o", out}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir = dir
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := c.launcher.start(cmd)
	if err == nil {
		err = cmd.Wait()
	}
	if err != nil {
		return fmt.Errorf("build %s in %s: %w\n%s", pkg, dir, err, output.Bytes())
	}
	return nil
}

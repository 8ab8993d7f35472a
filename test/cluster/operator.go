// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The operator's identity in artifacts/deploy.
const (
	OperatorNamespace      = "demoapp-system"
	OperatorServiceAccount = "demoapp-controller"
)

// binaryVariable names the environment variable with the path of an operator that is already built.
const binaryVariable = "DEMOAPP_CONTROLLER_BINARY"

// operatorStopTimeout is longer than the operator's own --shutdown-timeout.
const operatorStopTimeout = 60 * time.Second

// Operator is the operator as a process.
type Operator struct {
	command    *exec.Cmd
	log        syncBuffer
	probeURL   string
	metricsURL string
	credential string
	exited     chan struct{}
}

// Launch describes an operator process that differs from the process of StartOperator.
type Launch struct {
	// Binary is the path of an operator of another version, whose CRDs and RBAC are applied by the
	// caller: see Deploy. If it is empty, the operator of this repository runs.
	Binary string
	// Dir is the working directory. If it is empty, the operator runs in the root of the
	// repository.
	Dir string
	// Proxy is the server that the operator connects to. If it is nil, the operator connects to the
	// API server.
	Proxy *Proxy
	// Namespace and Account name the ServiceAccount that the operator runs as. The lease is in that
	// namespace. By default, both are as in artifacts/deploy.
	Namespace, Account string
	// Defaults precede the flags of this package, and Args follow them.
	Defaults, Args []string
	// Env are further variables of the environment.
	Env []string
}

// Start is LaunchOperator for an operator that a Launch describes.
func (l Launch) Start(ctx context.Context, t testing.TB, c *Cluster) *Operator {
	t.Helper()
	binary := l.Binary
	if binary == "" {
		var err error
		if binary, err = c.prepareOperator(ctx); err != nil {
			t.Fatal(err)
		}
	}
	l.Binary = binary
	return launch(ctx, t, c, l)
}

// StartOperator starts the operator and waits until it reports ready. The operator runs as its
// ServiceAccount in the root of the repository, with the CRDs of artifacts/crds and the RBAC of
// artifacts/deploy. args follow the flags of this package, and so override them. The end of the
// test stops the operator; a failed test shows the operator's log.
func StartOperator(ctx context.Context, t testing.TB, c *Cluster, args ...string) *Operator {
	t.Helper()
	return LaunchOperator(ctx, t, c, args...).AwaitReady(ctx, t)
}

// StartOperatorBinary is StartOperator for an operator that the test has built.
func StartOperatorBinary(ctx context.Context, t testing.TB, c *Cluster, binary string, args ...string) *Operator {
	t.Helper()
	if _, err := c.prepareOperator(ctx); err != nil {
		t.Fatal(err)
	}
	return launch(ctx, t, c, Launch{Binary: binary, Args: args}).AwaitReady(ctx, t)
}

// StartOperatorAs is StartOperator for another ServiceAccount, with the permissions that the test
// grants to it. The lease is in its namespace.
func StartOperatorAs(ctx context.Context, t testing.TB, c *Cluster, namespace, account string, args ...string) *Operator {
	t.Helper()
	return Launch{Namespace: namespace, Account: account, Args: args}.Start(ctx, t, c).AwaitReady(ctx, t)
}

// AwaitReady waits until the operator reports ready.
func (o *Operator) AwaitReady(ctx context.Context, t testing.TB) *Operator {
	t.Helper()
	Eventually(ctx, t, "operator ready", func(ctx context.Context) (bool, error) {
		select {
		case <-o.exited:
			t.Fatalf("the operator ended with exit code %d before it was ready", o.command.ProcessState.ExitCode())
		default:
		}
		_, err := get(ctx, o.probeURL+"/readyz")
		return err == nil, err
	})
	return o
}

// LaunchOperator is StartOperator without the wait for readiness.
func LaunchOperator(ctx context.Context, t testing.TB, c *Cluster, args ...string) *Operator {
	t.Helper()
	return Launch{Args: args}.Start(ctx, t, c)
}

func launch(ctx context.Context, t testing.TB, c *Cluster, l Launch) *Operator {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	// Each process has its own token, which distinguishes its requests from requests of other processes.
	namespace := cmp.Or(l.Namespace, OperatorNamespace)
	config, err := c.ServiceAccountConfig(ctx, namespace, cmp.Or(l.Account, OperatorServiceAccount))
	if err != nil {
		t.Fatal(err)
	}
	credential, err := credentialOf(config.BearerToken)
	if err != nil {
		t.Fatal(err)
	}
	if l.Proxy != nil {
		config.Host, config.CAData = l.Proxy.server, l.Proxy.ca
	}
	if err := writeKubeconfig(config, namespace, kubeconfig); err != nil {
		t.Fatal(err)
	}
	metrics, probes := FreeAddress(ctx, t), FreeAddress(ctx, t)
	args := slices.Concat(longLease, l.Defaults, []string{
		"--kubeconfig=" + kubeconfig,
		"--leader-elect-resource-namespace=" + namespace,
		"--metrics-bind-address=" + metrics,
		"--health-probe-bind-address=" + probes,
	}, l.Args)

	o := &Operator{
		metricsURL: "http://" + metrics, probeURL: "http://" + probes, credential: credential, exited: make(chan struct{}),
	}
	// The end of the context must not kill the operator in the middle of its work. Stop and Kill
	// end the operator.
	o.command = exec.CommandContext(context.WithoutCancel(ctx), l.Binary, args...)
	o.command.Dir = cmp.Or(l.Dir, c.root)
	o.command.Stdout, o.command.Stderr = &o.log, &o.log
	o.command.Env = slices.Concat(os.Environ(), []string{"KUBE_CACHE_MUTATION_DETECTOR=true"}, l.Env)
	if err := c.launcher.start(o.command); err != nil {
		t.Fatalf("start the operator: %v", err)
	}
	go func() {
		// Stop returns the exit code; the error has no more information.
		_ = o.command.Wait()
		close(o.exited)
	}()
	t.Cleanup(func() {
		o.Stop()
		if t.Failed() {
			t.Logf("log of the operator (process %d):\n%s", o.command.Process.Pid, o.Log())
		}
	})
	return o
}

// Stop sends SIGTERM, waits for the operator's end and returns its exit code, which is -1 after a
// signal. An operator that takes longer than a minute is killed. Stop may be called again.
func (o *Operator) Stop() int {
	o.signal(syscall.SIGTERM)
	select {
	case <-o.exited:
	case <-time.After(operatorStopTimeout):
		o.Kill()
	}
	return o.command.ProcessState.ExitCode()
}

// Kill ends the operator like a crash, and waits for its end.
func (o *Operator) Kill() {
	o.signal(syscall.SIGKILL)
	<-o.exited
}

// Pause stops the operator's process until Resume.
func (o *Operator) Pause() { o.signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (o *Operator) Resume() { o.signal(syscall.SIGCONT) }

func (o *Operator) signal(sig syscall.Signal) {
	// The operator may have ended by itself, which makes the signal fail.
	_ = o.command.Process.Signal(sig)
}

// Exited is closed when the operator has ended.
func (o *Operator) Exited() <-chan struct{} { return o.exited }

// Log returns the operator's log so far.
func (o *Operator) Log() string { return o.log.String() }

// ByProcess selects the requests of one operator process from the audit log.
func ByProcess(o *Operator) AuditFilter {
	return func(event AuditEvent) bool { return event.Credential == o.credential }
}

// PID returns the operator's process id.
func (o *Operator) PID() int { return o.command.Process.Pid }

// PeakMemory returns the most memory, in bytes, that the operator's process has held since its
// start or since ResetPeakMemory. It works on Linux only.
func (o *Operator) PeakMemory() (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.PID()))
	if err != nil {
		return 0, fmt.Errorf("memory of the operator: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kibibytes, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(peak), "kB")), 10, 64)
			return kibibytes << 10, err
		}
	}
	return 0, errors.New("memory of the operator: no VmHWM in its status")
}

// ResetPeakMemory restarts the measurement of PeakMemory, and returns the memory that the process
// holds now.
func (o *Operator) ResetPeakMemory() (int64, error) {
	// proc(5) documents the number.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", o.PID()), []byte("5"), 0); err != nil {
		return 0, fmt.Errorf("memory of the operator: %w", err)
	}
	return o.PeakMemory()
}

// ProbeURL returns the URL above /healthz and /readyz.
func (o *Operator) ProbeURL() string { return o.probeURL }

// Metrics returns the answer of the operator's /metrics.
func (o *Operator) Metrics(ctx context.Context) (string, error) {
	content, err := get(ctx, o.metricsURL+"/metrics")
	return string(content), err
}

// Metric returns the value of a series of the operator: the name of a metric, with its labels.
func (o *Operator) Metric(ctx context.Context, series string) (float64, error) {
	metrics, err := o.Metrics(ctx)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(metrics) {
		if value, found := strings.CutPrefix(line, series+" "); found {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("the operator has no series %s", series)
}

// ByOperator selects the requests of the operator from the audit log.
func ByOperator() AuditFilter {
	return ByServiceAccount(OperatorNamespace, OperatorServiceAccount)
}

// prepareOperator builds the operator and applies its CRDs and RBAC, once, and returns the path of
// the binary.
func (c *Cluster) prepareOperator(ctx context.Context) (string, error) {
	c.operatorMutex.Lock()
	defer c.operatorMutex.Unlock()
	if c.operatorBinary != "" {
		return c.operatorBinary, nil
	}
	binary, err := c.buildOperator(ctx)
	if err != nil {
		return "", err
	}
	if err := c.Deploy(ctx, c.root); err != nil {
		return "", err
	}
	c.operatorBinary = binary
	return binary, nil
}

// buildOperator builds the operator once, with the race detector if the tests have it. Callers hold
// operatorMutex.
func (c *Cluster) buildOperator(ctx context.Context) (string, error) {
	if binary := os.Getenv(binaryVariable); binary != "" {
		return filepath.Abs(binary)
	}
	if c.builtOperator != "" {
		return c.builtOperator, nil
	}
	var flags []string
	if RaceEnabled {
		flags = append(flags, "-race")
	}
	binary := filepath.Join(c.connection.Dir, "demoapp-controller")
	if err := c.goBuild(ctx, c.root, binary, "./cmd/demoapp-controller", flags...); err != nil {
		return "", err
	}
	c.builtOperator = binary
	return binary, nil
}

// Deploy applies artifacts/crds and artifacts/deploy below root, which is the root of this
// repository or a copy of an earlier commit.
func (c *Cluster) Deploy(ctx context.Context, root string) error {
	if err := c.InstallCRDs(ctx, filepath.Join(root, "artifacts", "crds")); err != nil {
		return err
	}
	return c.DeployWithoutCRDs(ctx, root)
}

// DeployWithoutCRDs applies artifacts/deploy below root. The Deployment is left out, because the
// operator runs as a process.
func (c *Cluster) DeployWithoutCRDs(ctx context.Context, root string) error {
	objects, err := c.load([]string{filepath.Join(root, "artifacts", "deploy")})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if object.GetKind() == "Deployment" {
			continue
		}
		if err := c.ApplyObject(ctx, OperatorNamespace, object); err != nil {
			return err
		}
	}
	return nil
}

// get returns the body of an answer with status 200.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: HTTP status %d: %s", url, response.StatusCode, body)
	}
	return body, nil
}

// syncBuffer is a buffer that a process writes and a test reads.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write appends to the buffer.
func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns the text written so far.
func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

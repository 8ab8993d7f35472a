// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// operatorBinary is what "make build" builds from operatorSource.
	operatorBinary = "bin/demoapp-controller"
	operatorSource = "cmd/demoapp-controller"
	// readyPoll is the time between two requests to /readyz.
	readyPoll = 50 * time.Millisecond
)

// operator is the operator as a process on this machine.
type operator struct {
	// config is the kubeconfig of the user. The operator connects to the same cluster with its own credentials.
	config []byte
	// kubeconfig is a file in the tour's own folder.
	kubeconfig string
	// log is an open file in that folder. stop closes the file.
	log *os.File
	// newer is the path of the newer operator's binary.
	newer string
	// licenseURL is the template of the URL of the license server.
	licenseURL string
	// metrics is the host:port of /metrics, or "0".
	metrics string
	// probes is the host:port of /readyz.
	probes string
	// crashed is called when the process ends without a stop.
	crashed func(error)

	// process is nil before the operator is started.
	process *process
}

// newOperator returns an operator that is not started yet. Its files are in dir.
func newOperator(
	ctx context.Context, sh shell, dir, newer, licenseURL, metrics string, crashed func(error),
) (*operator, error) {
	config, err := sh.run(ctx, "kubectl config view --minify --flatten --raw -o json")
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %s: %w", strings.TrimSpace(config), err)
	}
	probes, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "operator.log"))
	if err != nil {
		return nil, fmt.Errorf("create the operator's log: %w", err)
	}
	return &operator{
		config:     []byte(config),
		kubeconfig: filepath.Join(dir, "operator.kubeconfig"),
		log:        log,
		newer:      newer,
		licenseURL: licenseURL,
		metrics:    metrics,
		probes:     probes,
		crashed:    crashed,
	}, nil
}

// freeAddress returns an address on which no process listens at the moment.
func freeAddress(ctx context.Context) (string, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return address, nil
}

func (o *operator) args() []string {
	return []string{
		"--kubeconfig=" + o.kubeconfig, "--metrics-bind-address=" + o.metrics, "--health-probe-bind-address=" + o.probes,
		"--license-url=" + o.licenseURL, "--watches-file=" + watchesFile,
	}
}

// command implements performer.
func (o *operator) command() string { return operatorBinary + " " + strings.Join(o.args(), " ") + " &" }

// useToken implements performer: it writes the operator's kubeconfig.
func (o *operator) useToken(token string) error {
	config, err := withToken(o.config, strings.TrimSpace(token))
	if err != nil {
		return err
	}
	if err := os.WriteFile(o.kubeconfig, config, 0o600); err != nil {
		return fmt.Errorf("write the operator's kubeconfig: %w", err)
	}
	return nil
}

// withToken returns a kubeconfig for the cluster of the only context in config, with a token and without the
// credentials of that context's user.
func withToken(config []byte, token string) ([]byte, error) {
	var from struct {
		Clusters json.RawMessage `json:"clusters"`
		Contexts []struct {
			Context struct {
				Cluster string `json:"cluster"`
			} `json:"context"`
		} `json:"contexts"`
	}
	if err := json.Unmarshal(config, &from); err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if len(from.Contexts) != 1 {
		return nil, fmt.Errorf("the kubeconfig has %d current contexts", len(from.Contexts))
	}
	type object map[string]any
	result, err := json.Marshal(object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": serviceAccount,
		"clusters":        from.Clusters,
		"contexts": []object{{
			"name":    serviceAccount,
			"context": object{"cluster": from.Contexts[0].Context.Cluster, "user": serviceAccount},
		}},
		"users": []object{{"name": serviceAccount, "user": object{"token": token}}},
	})
	if err != nil {
		return nil, fmt.Errorf("write the operator's kubeconfig: %w", err)
	}
	return result, nil
}

// start implements performer.
func (o *operator) start(ctx context.Context) (string, error) {
	return o.run(ctx, operatorBinary, o.args())
}

// newerArgs are the flags of the newer operator. With few DemoApps, the defaults would never hold an upgrade back.
func (o *operator) newerArgs() []string {
	return append(o.args(), "--max-concurrent-rollouts=1", "--rollout-failure-threshold=1")
}

// newerCommand implements performer.
func (o *operator) newerCommand() string {
	return o.newer + " " + strings.Join(o.newerArgs(), " ") + " &"
}

// startNewer implements performer.
func (o *operator) startNewer(ctx context.Context) (string, error) {
	return o.run(ctx, o.newer, o.newerArgs())
}

// run starts a binary and returns when it is ready.
func (o *operator) run(ctx context.Context, binary string, args []string) (output string, err error) {
	o.process, err = startProcess(ctx, o.log, o.crashed, binary, args...)
	if err != nil {
		return "", err
	}
	if err := o.awaitReady(ctx); err != nil {
		return "", err
	}
	return "ready, says http://" + o.probes + "/readyz", nil
}

// end implements performer.
func (o *operator) end(context.Context) (string, error) { return "", o.process.stop() }

func (o *operator) awaitReady(ctx context.Context) error {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for !o.ready(ctx) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the operator is not ready: %w", context.Cause(ctx))
		case <-o.process.ended:
			return errors.New("the operator ended before it was ready")
		case <-ticker.C:
		}
	}
	return nil
}

// ready reports whether the operator is ready.
func (o *operator) ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.probes+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close()) == nil && answer.StatusCode == http.StatusOK
}

// stop ends the operator if it runs. stop may be called again.
func (o *operator) stop() error {
	var err error
	if o.process != nil {
		err = o.process.stop()
	}
	return errors.Join(err, o.closeLog())
}

// closeLog closes the log, which may be closed already.
func (o *operator) closeLog() error {
	if err := o.log.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close the operator's log: %w", err)
	}
	return nil
}

// logTail returns the last lines of the operator's log.
func (o *operator) logTail(lines int) string {
	// The operator writes at the file's own position, so reading must not move that position.
	content, err := io.ReadAll(io.NewSectionReader(o.log, 0, math.MaxInt64))
	if err != nil {
		return "(cannot be read: " + err.Error() + ")"
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

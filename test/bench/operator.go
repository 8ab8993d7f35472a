// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running operator.
type process struct {
	command *exec.Cmd
	log     *bytes.Buffer
	metrics string
	probes  string
	pprof   string
}

func buildOperator(ctx context.Context, root string) (string, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "demoapp-controller")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/demoapp-controller")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	return binary, nil
}

// startOperator starts the operator and waits until it is ready.
func startOperator(ctx context.Context, binary string, args ...string) (*process, error) {
	metrics, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	probes, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	pprof, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{
		log: &bytes.Buffer{}, metrics: "http://" + metrics + "/metrics", probes: "http://" + probes + "/readyz",
		pprof: "http://" + pprof + "/debug/pprof/",
	}
	p.command = exec.CommandContext(context.WithoutCancel(ctx), binary, append([]string{
		"--metrics-bind-address=" + metrics, "--health-probe-bind-address=" + probes, "--pprof-bind-address=" + pprof,
		"--leader-elect=false",
	}, args...)...)
	p.command.Stdout, p.command.Stderr = p.log, p.log
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("start the operator: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err = poll(ctx, 10*time.Millisecond, func() (bool, error) {
		_, err := fetch(ctx, p.probes)
		return err == nil, nil
	})
	if err != nil {
		stopErr := p.stop()
		return nil, errors.Join(fmt.Errorf("the operator does not become ready: %w\n%s", err, tail(p.log)), stopErr)
	}
	return p, nil
}

// tail returns the end of a log.
func tail(log *bytes.Buffer) string {
	const most = 4000
	text := log.String()
	return text[max(0, len(text)-most):]
}

// stop ends the operator and waits for it.
func (p *process) stop() error {
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return p.command.Wait()
}

// cpu is the CPU time that the operator has used.
func (p *process) cpu() (time.Duration, error) { return cpuOf(p.command.Process.Pid) }

// peakRSS is the most memory that the operator has held, in bytes.
func (p *process) peakRSS() (int64, error) { return p.memory("VmHWM:") }

// rss is the memory that the operator holds, in bytes.
func (p *process) rss() (int64, error) { return p.memory("VmRSS:") }

// memory returns a size from /proc, in bytes.
func (p *process) memory(field string) (int64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in /proc/status", field)
}

// heap collects garbage twice and returns the size of the live objects, in bytes. The first
// collection moves unused objects of pools out of reach.
func (p *process) heap(ctx context.Context) (int64, error) {
	if _, err := fetch(ctx, p.pprof+"heap?debug=1&gc=1"); err != nil {
		return 0, err
	}
	profile, err := fetch(ctx, p.pprof+"heap?debug=1&gc=1")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(profile)) {
		if value, ok := strings.CutPrefix(line, "# HeapAlloc = "); ok {
			return strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, errors.New("no HeapAlloc in the heap profile")
}

// sum adds up the samples of a metric whose labels contain all the given texts.
func (p *process) sum(ctx context.Context, metric string, labels ...string) (float64, error) {
	body, err := fetch(ctx, p.metrics)
	if err != nil {
		return 0, err
	}
	total := 0.0
	lines := bufio.NewScanner(bytes.NewReader(body))
	lines.Buffer(nil, 1<<20)
next:
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if brace := strings.LastIndexByte(lines.Text(), '}'); brace >= 0 {
			name, value = lines.Text()[:brace+1], strings.TrimSpace(lines.Text()[brace+1:])
		}
		base, _, _ := strings.Cut(name, "{")
		if !ok || base != metric {
			continue
		}
		for _, label := range labels {
			if !strings.Contains(name, label) {
				continue next
			}
		}
		sample, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", lines.Text(), err)
		}
		total += sample
	}
	return total, lines.Err()
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

func freeAddress(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// poll asks until the answer is yes.
func poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

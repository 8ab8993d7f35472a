// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"bytes"
	"errors"
	"log"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestExecuteUsage(t *testing.T) {
	tests := []struct {
		name   string
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{name: "version", args: []string{"--version"}, stdout: "demoapp-controller " + NewOptions().VersionLine() + "\n"},
		{name: "unknown flag", args: []string{"--frob"}, code: 2, stderr: "demoapp-controller: unknown flag: --frob; see --help\n"},
		{
			name: "argument", args: []string{"run"}, code: 2,
			stderr: "demoapp-controller: unexpected argument \"run\": the command accepts only flags, see --help\n",
		},
		{
			name: "two invalid values", args: []string{"--workers=0", "--logging-format=xml"}, code: 2,
			stderr: "demoapp-controller: --workers=0: must be at least 1\n" +
				"demoapp-controller: --logging-format=xml: must be text or json\n",
		},
		{
			name: "no kind enabled", args: []string{"--controllers=watches"}, code: 2,
			stderr: "demoapp-controller: --controllers=watches: enables no kind that can run; use * to enable all kinds\n",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			keepLogging(t)
			var stdout, stderr bytes.Buffer
			if code := Execute(t.Context(), test.args, &stdout, &stderr); code != test.code {
				t.Errorf("exit code = %d, want %d", code, test.code)
			}
			if stdout.String() != test.stdout {
				t.Errorf("stdout = %q, want %q", &stdout, test.stdout)
			}
			if stderr.String() != test.stderr {
				t.Errorf("stderr = %q, want %q", &stderr, test.stderr)
			}
		})
	}
}

// keepLogging restores the logging configuration of the process when the test ends.
func keepLogging(t *testing.T) {
	state, logger, flags, out := klog.CaptureState(), slog.Default(), log.Flags(), log.Writer()
	t.Cleanup(func() {
		state.Restore()
		slog.SetDefault(logger)
		log.SetFlags(flags)
		log.SetOutput(out)
	})
}

func TestExecuteFailureIsOneLine(t *testing.T) {
	keepLogging(t)
	var stderr bytes.Buffer
	code := Execute(t.Context(), []string{"--kubeconfig=/does/not/exist", "--logging-format=json"}, nil, &stderr)
	if code != exitFailed {
		t.Errorf("exit code = %d, want %d", code, exitFailed)
	}
	lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], `"level":"ERROR","msg":"--kubeconfig=/does/not/exist: `) {
		t.Errorf("stderr = %q, want one line of JSON", lines)
	}
}

func TestCommandPassesParsedOptions(t *testing.T) {
	keepLogging(t)
	failure := errors.New("failed")
	var got *Options
	cmd := newCommand(&bytes.Buffer{}, func(options *Options) error {
		got = options
		return failure
	})
	cmd.SetArgs([]string{"--workers=3", "--namespaces=a,b", "-v2"})
	if err := cmd.Execute(); !errors.Is(err, failure) || errors.Is(err, errUsage) {
		t.Errorf("error = %v, want the error of run", err)
	}
	if got.Workers != 3 || len(got.Namespaces) != 2 || got.Verbosity != 2 {
		t.Errorf("options = %+v", got)
	}
}

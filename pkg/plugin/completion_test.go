// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/plugin"
	"github.com/example/demoapp-controller/test/expect"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	w := newAppsWorld(t)
	tests := []struct{ name, args, want string }{
		{"kind", "why dem", "demoapp/\n:6\n"},
		{"name behind the kind", "why demoapp/", "demoapp/db\ndemoapp/web\n:4\n"},
		{"beginning of a name", "get demoapp/w", "demoapp/web\n:4\n"},
		{"name as an argument", "status demoapp w", "web\n:4\n"},
		{"one object only", "status demoapp/web demoapp/", ":4\n"},
		{"several objects", "suspend demoapp/web demoapp/", "demoapp/db\n:4\n"},
		{"several names", "wait demoapp db ''", "web\n:4\n"},
		{"format", "get -o ", "json\nyaml\nname\nwide\n:4\n"},
		{"format of a command with two", "why -o ", "json\nyaml\n:4\n"},
		{"revision", "rollback demoapp/web --to ", "2\n1\n:36\n"},
		{"revision to compare", "history demoapp/web --diff ", "2\n1\n:36\n"},
		{"chart", "get --chart demo", "demo-app\ndemo-app@0.1.0\n:4\n"},
		{"context", "get --context ", "fake\n:4\n"},
		{"dry run", "retry --dry-run ", "none\nclient\nserver\n:4\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := strings.Split(strings.ReplaceAll(test.args, "''", ""), " ")
			args = append([]string{"__complete", "--kubeconfig=" + w.kubeconfig, "--cache-dir=" + t.TempDir()}, args...)
			var out bytes.Buffer
			code := plugin.Execute(t.Context(), w.options, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: io.Discard})
			expect.Equal(t, "completions", test.want, out.String())
			expect.Equal(t, "exit code", 0, code)
		})
	}
}

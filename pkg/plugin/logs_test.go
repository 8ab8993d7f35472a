// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/expect"
)

// operatorLog has lines of two replicas about two objects, and lines about no object.
var operatorLog = strings.Join([]string{
	`{"time":"1970-01-01T01:00:02Z","level":"ERROR","msg":"The pass failed","controller":"demoapp","object":{"name":"web","namespace":"shop"},"reconcileID":"5f0c1b9e","generation":2,"reason":"Retry","err":"chart: a \u001b[31mred one"}`,
	`{"time":"1970-01-01T01:00:01Z","level":"INFO","msg":"Event","controller":"demoapp","object":{"name":"web","namespace":"shop"},"reconcileID":"5f0c1b9e","generation":1,"type":"Normal","attempts":3}`,
	`{"time":"1970-01-01T01:00:03Z","level":"INFO","msg":"other name","controller":"demoapp","object":{"name":"db","namespace":"shop"}}`,
	`{"time":"1970-01-01T01:00:03Z","level":"INFO","msg":"other namespace","controller":"demoapp","object":{"name":"web","namespace":"bank"}}`,
	`{"time":"1970-01-01T01:00:03Z","level":"INFO","msg":"other kind","controller":"website","object":{"name":"web","namespace":"shop"}}`,
	`{"time":"1970-01-01T01:00:03Z","level":"INFO","msg":"no pass","controller":"demoapp"}`,
	`{"msg":"` + strings.Repeat("long", 32<<10) + `","controller":"demoapp","object":{"name":"web","namespace":"shop"}}`,
	``,
	`not JSON`,
}, "\n") + "\n"

func TestLogs(t *testing.T) {
	t.Parallel()
	const event, failure = "1970-01-01T01:00:01Z INFO  Event attempts=3 type=Normal\n",
		"1970-01-01T01:00:02Z ERROR The pass failed err=\"chart: a \\x1b[31mred one\" reason=Retry\n"
	file := filepath.Join(t.TempDir(), "operator.log")
	expect.NoError(t, os.WriteFile(file, []byte(operatorLog), 0o600))
	text := filepath.Join(t.TempDir(), "text.log")
	expect.NoError(t, os.WriteFile(text, []byte("level=INFO msg=Starting\nlevel=INFO msg=Event object=shop/web\n"), 0o600))
	w := newAppsWorld(t)
	tests := []struct {
		name, args, out, errors string
		code                    int
	}{
		{name: "file", args: "logs demoapp/web -f " + file, out: event + failure, errors: "warning: 1 lines are not JSON and were skipped; run the operator with --logging-format=json, or logging.format: json of its chart\n"},
		{name: "newest", args: "logs demoapp/web --tail=1 -f " + file, out: failure},
		{name: "since", args: "logs demoapp/web --since=398s -f " + file, out: failure},
		{name: "standard input", args: "logs demoapp/web -f -", out: failure + event},
		{name: "raw", args: "logs demoapp/web -o json --tail=1 -f " + file, out: strings.SplitAfter(operatorLog, "\n")[0]},
		{
			name: "not JSON", args: "logs demoapp/web -f " + text, code: 3,
			errors: "error: the log is not JSON, so its 2 lines do not tell their object; run the operator with --logging-format=json, or logging.format: json of its chart\n",
		},
		{name: "no pods", args: "logs demoapp/web", code: 3, errors: "; if the operator runs without this Deployment, use -f FILE with its log"},
		{name: "no lines", args: "logs demoapp/web --since=1s -f " + file, errors: "No lines about DemoApp/web found.\n"},
		{
			name: "mistyped name", args: "logs demoapp/wob -f " + file, code: 3,
			errors: `error: no lines about DemoApp/wob: demoapps.demo.example.com "wob" not found; did you mean "web"?`,
		},
		{name: "missing file", args: "logs demoapp/web -f none", code: 3, errors: "error: --filename: open none: "},
		{name: "follow a file", args: "logs demoapp/web --follow -f " + file, code: 3, errors: "error: --follow reads the operator's pods"},
		{name: "mistyped format", args: "logs demoapp/web -o jsn", code: 3, errors: `--output: no value "jsn"; did you mean "json"?`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			code, out, errOut := w.answering(t, operatorLog, strings.Fields(test.args)...)
			expect.Equal(t, "output", test.out, out)
			expect.Contains(t, "errors", errOut, test.errors)
			expect.Equal(t, "exit code", test.code, code)
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
)

// execute runs a command that needs no cluster.
func execute(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	scheme := runtime.NewScheme()
	if err := demov1alpha1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	code = Execute(t.Context(), Options{Scheme: scheme}, args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr})
	return code, stdout.String(), stderr.String()
}

const typedChart = "../scaffold/testdata/typed"

// TestCreateKind: the command writes the files, reports widened fields, and overwrites files only
// with --force.
func TestCreateKind(t *testing.T) {
	output := filepath.Join(t.TempDir(), "kinds", "typed")
	args := []string{"create", "kind", "--chart", typedChart, "--output", output}

	code, out, errs := execute(t, args...)

	if code != exitOK || strings.Count(out, "\n") != 5 {
		t.Fatalf("exit code %d, output %q, errors %q", code, out, errs)
	}
	if !strings.Contains(errs, "widened: crd.yaml: spec.storage: a CRD has no oneOf\n") || !strings.Contains(errs, "Next: kubectl apply -f ") {
		t.Errorf("errors are %q", errs)
	}
	crd := filepath.Join(output, "crd.yaml")
	if err := os.WriteFile(crd, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs = execute(t, args...)
	if text, err := os.ReadFile(crd); code != exitFailed || err != nil || string(text) != "mine" || !strings.Contains(errs, crd+" exists; ") {
		t.Errorf("exit code %d, file %q, errors %q", code, text, errs)
	}
	code, _, errs = execute(t, append(args, "--force")...)
	if text, err := os.ReadFile(crd); code != exitOK || err != nil || string(text) == "mine" {
		t.Errorf("exit code %d, file %q, errors %q", code, text, errs)
	}
}

// TestCreateKindPrints: without --output, all that is not an object is a comment.
func TestCreateKindPrints(t *testing.T) {
	code, out, _ := execute(t, "create", "kind", "--chart", typedChart)

	if code != exitOK || !strings.Contains(out, "\nkind: CustomResourceDefinition\n") || !strings.Contains(out, "\n#   chart: "+typedChart+"\n") {
		t.Errorf("exit code %d, output:\n%s", code, out)
	}
}

// TestUsageErrors: for an unknown command and for an invalid value of a flag, one line names the
// nearest valid word.
func TestUsageErrors(t *testing.T) {
	tests := map[string]string{
		"gett":                   `no command "gett"; did you mean "get"?`,
		"create kin":             `no command "kin"; did you mean "kind"?`,
		"help gett":              `no command "gett"; did you mean "get"?`,
		"help create kin":        `no command "kin"; did you mean "kind"?`,
		"completion fishh":       `no command "fishh"; did you mean "fish"?`,
		"rollback a/b --to x":    `--to: "x" is not a whole number`,
		"wait a/b --timeout 5":   `--timeout: "5" is not a duration, such as 5m`,
		"status a/b -o table":    `--output: no value "table"; use json or yaml`,
		"diff a/b -o yml":        `--output: no value "yml"; did you mean "yaml"?`,
		"rollback a/b --dry-run": "flag needs an argument: --dry-run",
	}
	for args, want := range tests {
		t.Run(args, func(t *testing.T) {
			code, out, errs := execute(t, strings.Fields(args)...)

			if code != exitFailed || out != "" || errs != "error: "+want+"\n" {
				t.Errorf("exit code %d, output %q, errors %q, want %q", code, out, errs, want)
			}
		})
	}
}

func TestCreateKindErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"no chart":        {nil, `required flag(s) "chart" not set`},
		"missing chart":   {[]string{"--chart", "no/chart"}, "--chart: stat no/chart: no such file"},
		"no chart inside": {[]string{"--chart", "../scaffold"}, "--chart ../scaffold: "},
		"missing values":  {[]string{"--chart", typedChart, "--values", "no.yaml"}, "--values: open no.yaml: no such file"},
		"required values": {[]string{"--chart", "../scaffold/testdata/required"}, "database.host is required; name the values that it needs with --values FILE"},
		"kind of the operator": {
			[]string{"--chart", typedChart, "--group", "demo.example.com", "--kind", "DemoApp"}, "DemoApp.demo.example.com is a kind of the operator, whose CRD would be replaced",
		},
		"no archive": {[]string{"--chart", "create.go"}, "--chart create.go: "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code, out, errs := execute(t, append([]string{"create", "kind"}, test.args...)...)

			if code != exitFailed || out != "" || !strings.Contains(errs, test.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, output %q, errors %q, want one line with %q", code, out, errs, test.want)
			}
		})
	}
}

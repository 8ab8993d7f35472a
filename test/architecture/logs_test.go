// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// passFolders have the code that runs in passes.
var passFolders = []string{"pkg/controller", "pkg/helm"}

// loggers are the functions of log packages that take the logger from a context or a parameter. All
// other functions write lines without the fields of the pass.
var loggers = map[string][]string{
	"klog": {"FromContext", "NewContext", "LoggerWithValues", "KRef", "KObj", "Logger"},
	"slog": {
		"New", "Any", "Bool", "Duration", "Int", "String", "Attr", "Group", "GroupValue", "StringValue", "Value", "Handler", "Logger",
		"NewRecord", "Record", "Level", "LevelDebug", "LevelInfo", "LevelWarn", "LevelError", "KindAny", "KindGroup", "KindString",
	},
	"log": nil,
}

// defaultLogger is the file that uses slog.Default, when an engine is built without a logger.
const defaultLogger = "pkg/helm/engine.go"

// passFields are the fields of a pass, which only fieldsFile sets.
var passFields = []string{"controller", "object", "generation", "reconcileID", "reason"}

const fieldsFile = "pkg/controller/log.go"

// TestLogsHaveFieldsOfPass holds that code of passes logs with the logger of its context, and
// leaves alone the fields of the pass.
func TestLogsHaveFieldsOfPass(t *testing.T) {
	for _, file := range goFiles(t) {
		isOfPass := slices.ContainsFunc(passFolders, func(folder string) bool { return strings.HasPrefix(file, folder+"/") })
		if !isOfPass || strings.HasSuffix(file, "_test.go") || forTests(path.Dir(file)) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range logProblems(parsed) {
			if file != fieldsFile && (file != defaultLogger || problem != "slog.Default") {
				t.Errorf("%s: %s: log with klog.FromContext(ctx), and use other names for other facts, such as \"target\"", file, problem)
			}
		}
	}
}

func TestLogProblems(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"logger of the context", `klog.FromContext(ctx).Info("m", "target", x)`, ""},
		{"logger of the process", `klog.Background().Info("m")`, "klog.Background"},
		{"global function", `klog.InfoS("m")`, "klog.InfoS"},
		{"default logger", `slog.Info("m")`, "slog.Info"},
		{"package log", `log.Printf("m")`, "log.Printf"},
		{"field of the pass", `klog.FromContext(ctx).V(2).Error(err, "m", "object", x)`, `field "object"`},
		{"attribute of slog", `o.logger.Warn("m", slog.String("reason", x))`, `field "reason"`},
		{"values of a logger", `klog.LoggerWithValues(l, "generation", 1)`, `field "generation"`},
		{"text elsewhere", `fmt.Errorf("reason")`, ""},
		{"other package", `catalog.Printf("m")`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			parsed, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n\nfunc f() { "+test.body+" }\n", parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(logProblems(parsed), ", "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// logProblems returns the functions of log packages that a file uses although loggers does not
// allow them, and the fields of passes that it sets.
func logProblems(file *ast.File) []string {
	var problems []string
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); ok {
				if allowed, ok := loggers[pkg.Name]; ok && !slices.Contains(allowed, n.Sel.Name) {
					problems = append(problems, pkg.Name+"."+n.Sel.Name)
				}
			}
		case *ast.CallExpr:
			for _, field := range fieldsIn(n) {
				problems = append(problems, "field "+strconv.Quote(field))
			}
		}
		return true
	})
	return problems
}

// logCalls are the functions and methods whose arguments are a message and fields, or fields only.
var logCalls = []string{
	"Info", "Error", "Warn", "Debug", "InfoContext", "ErrorContext", "WarnContext", "DebugContext", "With", "WithValues", "LoggerWithValues",
}

// fieldsIn returns the fields of passes among the arguments of a call that logs, or that makes an
// attribute of slog.
func fieldsIn(call *ast.CallExpr) []string {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	pkg, _ := selector.X.(*ast.Ident)
	if isAttribute := pkg != nil && pkg.Name == "slog"; !isAttribute && !slices.Contains(logCalls, selector.Sel.Name) {
		return nil
	}
	var found []string
	for _, argument := range call.Args {
		if literal, ok := argument.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil && slices.Contains(passFields, text) {
				found = append(found, text)
			}
		}
	}
	return found
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	root   = "../.."
	module = "github.com/example/demoapp-controller"
)

// A layer is a folder of this module with everything below it, except for folders that
// are layers of their own.
type layer struct {
	folder string
	// may lists the folders that the layer may import, apart from its own. All layers may import
	// leaves.
	may []string
	// mayInTests lists the folders that only its tests may import.
	mayInTests []string
}

const (
	plumbing  = "pkg/controller"
	pass      = "pkg/controller/kind"
	children  = "pkg/controller/child"
	lifecycle = "pkg/controller/release"
	kinds     = "pkg/controller/kinds"
	parts     = "pkg/controller/kinds/parts"
	engine    = "pkg/helm"
	// shared are the types that the resources of several kinds have in common.
	shared = "pkg/apis/meta"
)

// leaves import nothing of this module but each other.
var leaves = []string{
	"pkg/endpoint", "pkg/expiring", "pkg/health", "pkg/images", "pkg/message", "pkg/metacache", "pkg/overlay", "pkg/rawjson", "pkg/redact",
	"pkg/refusal", "pkg/registries", "pkg/served", "pkg/serving", "pkg/shardcache", "pkg/shutdown", "pkg/ssa", "pkg/window",
}

// layers are the folders under pkg. Each kind is a layer of its own: see layerOf.
var layers = []layer{
	{folder: "pkg/apis"},
	{folder: "pkg/generated", may: []string{"pkg/apis"}},
	{folder: engine},
	{folder: plumbing, may: []string{shared}},
	{folder: pass, may: []string{plumbing, shared}, mayInTests: []string{"pkg/apis", "pkg/generated"}},
	{folder: children, may: []string{pass, plumbing, shared, "pkg/apis/child"}},
	{folder: lifecycle, may: []string{pass, plumbing, engine, shared, "pkg/apis/release"}},
	{folder: parts, may: []string{children, pass, plumbing, "pkg/apis", "pkg/generated"}},
	{folder: kinds, may: []string{parts, children, pass, plumbing, "pkg/apis", "pkg/generated"}},
	{folder: "pkg/operator", may: []string{plumbing, shared}},
	{folder: "pkg/operator/releasekinds", may: []string{"pkg/operator", engine, pass, plumbing, lifecycle, kinds + "/watches"}},
	{folder: "pkg/inspect", may: []string{children, engine, lifecycle, plumbing, "pkg/apis"}},
	{folder: "pkg/scaffold", may: []string{engine, shared}, mayInTests: []string{kinds + "/watches/file"}},
	{folder: "pkg/ui", may: []string{"pkg/inspect"}, mayInTests: []string{children, shared}},
	{folder: "pkg/plugin", may: []string{"pkg/inspect", "pkg/ui", "pkg/scaffold", "pkg/apis", engine + "/chart"}},
	{folder: "pkg/webhook"},
	{folder: "pkg/webhook/webapp", may: []string{"pkg/webhook", "pkg/apis"}},
}

// releaseKinds may import the lifecycle and Helm's engine. All other kinds work without Helm.
var releaseKinds = []string{kinds + "/demoapp", kinds + "/watches"}

// restricted lists the foreign modules that not every layer may import, and the layers that may.
var restricted = []struct {
	module string
	may    []string
}{
	{module: "helm.sh/helm", may: []string{"pkg/helm", "test/conformance", "test/install", "test/upstream"}},
	{module: "sigs.k8s.io/controller-runtime"},
}

func TestImports(t *testing.T) {
	for _, file := range goFiles(t) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if why := refuse(file, imported); why != "" {
				t.Errorf("%s imports %s: %s", file, imported, why)
			}
		}
	}
}

// TestRefuse holds that TestImports can fail.
func TestRefuse(t *testing.T) {
	tests := []struct {
		file, imported string
		refused        bool
	}{
		{"pkg/apis/demo/v1alpha1/x.go", module + "/pkg/generated/openapi", true},
		{"pkg/apis/demo/v1alpha1/x.go", module + "/pkg/controller", true},
		{"pkg/apis/demo/v1alpha1/x.go", "k8s.io/apimachinery/pkg/types", false},
		{"pkg/generated/clientset/versioned/x.go", module + "/pkg/apis/demo/v1alpha1", false},
		{"pkg/generated/clientset/versioned/x.go", module + "/pkg/controller", true},
		{"pkg/helm/x.go", "helm.sh/helm/v4/pkg/action", false},
		{"pkg/helm/x.go", module + "/pkg/helm/charts", false},
		{"pkg/helm/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/helm/x.go", module + "/test/fakeapi", true},
		{"pkg/helm/x_test.go", module + "/test/fakeapi", false},
		{"pkg/controller/controllertest/x.go", module + "/test/fakeapi", true},
		{"pkg/controller/controllertest/x.go", module + "/pkg/controller/controllertest/passlog", false},
		{"pkg/operator/x.go", module + "/pkg/controller/controllertest/passlog", true},
		{"pkg/operator/x_test.go", module + "/pkg/controller/controllertest/passlog", false},
		{"pkg/helm/x.go", module + "/pkg/controller", true},
		{"pkg/controller/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/controller/x.go", module + "/pkg/generated/openapi", true},
		{"pkg/controller/x.go", module + "/pkg/helm", true},
		{"pkg/controller/x.go", module + "/pkg/controller/kind/status", true},
		{"pkg/controller/x.go", module + "/pkg/controller/kinds/demoapp", true},
		{"pkg/controller/kind/status/x.go", module + "/pkg/controller", false},
		{"pkg/controller/kind/status/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/controller/release/x.go", module + "/pkg/helm", false},
		{"pkg/controller/release/x.go", "helm.sh/helm/v4/pkg/action", true},
		{"pkg/controller/kind/finalizer/x.go", module + "/pkg/helm", true},
		{"pkg/controller/kinds/demoapp/x.go", module + "/pkg/controller", false},
		{"pkg/controller/kinds/demoapp/x.go", module + "/pkg/controller/release", false},
		{"pkg/controller/kinds/demoapp/x.go", module + "/pkg/generated/listers/demo/v1alpha1", false},
		{"pkg/controller/kinds/demoapp/x.go", module + "/pkg/controller/kinds/website", true},
		{"pkg/controller/kinds/demoapp/inner/x.go", module + "/pkg/controller/kinds/demoapp", false},
		{"pkg/controller/kinds/demoapp/x.go", module + "/cmd/demoapp-controller/app", true},
		{"pkg/controller/kinds/demoapp/x.go", "helm.sh/helm/v4/pkg/release/v1", true},
		{"pkg/controller/kinds/demoappcluster/x.go", module + "/pkg/controller/child", false},
		{"pkg/controller/kinds/demoappcluster/x.go", module + "/pkg/controller/kinds/demoapp", true},
		{"pkg/controller/kinds/demoappcluster/x.go", module + "/pkg/helm", true},
		{"pkg/controller/kinds/demoapp/x.go", module + "/pkg/controller/kinds/demoappcluster", true},
		{"pkg/apis/webapp/v1/x_test.go", module + "/test/crd", false},
		{"pkg/apis/webapp/v1/x.go", module + "/test/crd", true},
		{"pkg/controller/kinds/website/x.go", module + "/pkg/controller/child", false},
		{"pkg/controller/kinds/website/x.go", module + "/pkg/controller/kinds/demoapp", true},
		{"pkg/controller/kinds/website/x.go", module + "/pkg/helm", true},
		{"pkg/controller/kinds/demoappcluster/x.go", module + "/pkg/controller/release", true},
		{"pkg/controller/kinds/demoapp/x.go", module + "/pkg/operator", true},
		{"pkg/unknown/x.go", module + "/pkg/controller", true},
		{"pkg/unknown/x.go", module + "/pkg/unknown", true},
		{"pkg/controller/kinds/demoapp/x.go", module + "/pkg/unknown", true},
		{"pkg/operator/x.go", module + "/pkg/controller", false},
		{"pkg/operator/x.go", module + "/pkg/controller/kinds/demoapp", true},
		{"pkg/operator/x.go", module + "/pkg/controller/kind/status", true},
		{"pkg/operator/x.go", module + "/pkg/generated/clientset/versioned", true},
		{"pkg/operator/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/operator/x.go", module + "/pkg/helm", true},
		{"pkg/operator/x_test.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/operator/x.go", module + "/cmd/demoapp-controller/app", true},
		{"cmd/demoapp-controller/app/x.go", module + "/pkg/operator", false},
		{"cmd/demoapp-controller/app/x.go", module + "/pkg/controller/kinds/demoapp", false},
		{"cmd/demoapp-controller/app/x.go", "helm.sh/helm/v4/pkg/action", true},
		{"cmd/demoapp-controller/app/x.go", "sigs.k8s.io/controller-runtime/pkg/client", true},
		{"pkg/helm/x.go", "sigs.k8s.io/controller-runtime", true},
		{"pkg/controller/x.go", module + "/pkg/controller/controllertest", true},
		{"pkg/controller/x_test.go", module + "/pkg/controller/controllertest", false},
		{"pkg/controller/x_test.go", module + "/pkg/controller", false},
		{"pkg/controller/x_test.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/controller/kind/status/x_test.go", module + "/pkg/controller/controllertest", false},
		{"hack/demo/x.go", module + "/pkg/apis/demo/v1alpha1", false},
		{"test/integration/x.go", module + "/cmd/demoapp-controller/app", false},
	}
	for _, test := range tests {
		t.Run(test.file+" imports "+test.imported, func(t *testing.T) {
			if why := refuse(test.file, test.imported); (why != "") != test.refused {
				t.Errorf("got %q, want refused=%t", why, test.refused)
			}
		})
	}
}

// refuse returns why a file of this module must not import a package, or "".
func refuse(file, imported string) string {
	folder := path.Dir(file)
	for _, r := range restricted {
		if within(imported, r.module) && !slices.ContainsFunc(r.may, func(may string) bool { return within(folder, may) }) {
			if len(r.may) == 0 {
				return "nobody may"
			}
			return "only " + strings.Join(r.may, ", ") + " may"
		}
	}
	target, ours := strings.CutPrefix(imported, module+"/")
	if !ours || !within(folder, "pkg") {
		return ""
	}
	from, known := layerOf(folder)
	if !known {
		return "no layer names " + folder
	}
	to, known := layerOf(target)
	may := slices.Concat([]string{from.folder}, leaves, from.may)
	if strings.HasSuffix(file, "_test.go") {
		may = append(may, from.mayInTests...)
		if forTests(target) {
			return ""
		}
	}
	if known && (!forTests(target) || forTests(folder)) && slices.ContainsFunc(may, func(allowed string) bool {
		return within(target, allowed) && len(allowed) >= len(to.folder)
	}) {
		return ""
	}
	return from.folder + " may import only [" + strings.Join(may, ", ") + "] of this module"
}

// forTests reports whether only tests use a folder.
func forTests(folder string) bool {
	return within(folder, "test") || within(folder, plumbing+"/controllertest") || within(folder, lifecycle+"/releasetest")
}

// layerOf returns the layer of a folder, and whether the folder has one.
func layerOf(folder string) (found layer, known bool) {
	for _, name := range leaves {
		if within(folder, name) {
			return layer{folder: name}, true
		}
	}
	for _, l := range layers {
		if within(folder, l.folder) && len(l.folder) > len(found.folder) {
			found = l
		}
	}
	if name, below := strings.CutPrefix(folder, kinds+"/"); below && found.folder == kinds {
		name, _, _ = strings.Cut(name, "/")
		found.folder = kinds + "/" + name
		if slices.Contains(releaseKinds, found.folder) {
			found.may = slices.Concat(found.may, []string{lifecycle, engine})
		}
	}
	return found, found.folder != ""
}

func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

// goFiles returns the Go files of this module, with build tags or without,
// relative to its root.
func goFiles(t *testing.T) []string {
	t.Helper()
	files := filesWith(t, ".go", skip)
	if !slices.Contains(files, "test/architecture/architecture_test.go") {
		t.Fatalf("this file is not among the %d files found", len(files))
	}
	return files
}

// filesWith returns the files with an extension, relative to the root. skip returns
// [filepath.SkipDir] for a folder that is left out.
func filesWith(t *testing.T, extension string, skip func(name, relative string) error) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return skip(name, relative)
		}
		if filepath.Ext(name) == extension {
			files = append(files, filepath.ToSlash(relative))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// skip leaves out hidden folders, build output, test data and other modules.
func skip(name, relative string) error {
	if relative == "." {
		return nil
	}
	base := filepath.Base(relative)
	if strings.HasPrefix(base, ".") || base == "testdata" || relative == "bin" {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

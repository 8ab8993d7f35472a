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

// A layer is a folder of this module with everything below it, up to the folders
// that are layers of their own.
type layer struct {
	folder string
	// may lists the layers that it may import, besides itself.
	may []string
	// mayInTests lists those that its tests may import beside them.
	mayInTests []string
}

// plumbing and steps are the layers in pkg/controller that are not rooms.
const (
	plumbing = "pkg/controller"
	engine   = "pkg/helm"
	// fakes is what the tests of all of them may import.
	fakes = "pkg/controller/controllertest"
	// fakeAPI is what all tests may import. It imports nothing of this module.
	fakeAPI = "test/fakeapi"
	// passLog is what all tests may import, too. It imports nothing of this module.
	passLog = fakes + "/passlog"
	// releaseWorld is what the tests of release kinds may import.
	releaseWorld = "test/releaseworld"
)

var steps = []string{
	"pkg/controller/audit",
	"pkg/controller/child",
	"pkg/controller/claim",
	"pkg/controller/cleanup",
	"pkg/controller/component",
	"pkg/controller/custom",
	"pkg/controller/datastore",
	"pkg/controller/endpoint",
	fakes,
	"pkg/controller/dump",
	"pkg/controller/event",
	"pkg/controller/finalizer",
	"pkg/controller/images",
	"pkg/controller/kind",
	"pkg/controller/license",
	"pkg/controller/message",
	"pkg/controller/mysql",
	"pkg/controller/naming",
	"pkg/controller/redact",
	"pkg/controller/registries",
	"pkg/controller/release",
	"pkg/controller/release/gates",
	"pkg/controller/release/releasetest",
	"pkg/controller/reload",
	"pkg/controller/rollout",
	"pkg/controller/runs",
	"pkg/controller/sandbox",
	"pkg/controller/secretkeys",
	"pkg/controller/served",
	"pkg/controller/status",
	"pkg/controller/tier",
	"pkg/controller/values",
	"pkg/controller/watches/file",
	"pkg/controller/window",
	"pkg/controller/workload",
}

// rooms are the packages of kinds. A room without a layer of its own may import all
// steps and Helm's engine; a plain one, nothing that leads to the engine. No room may
// import another.
var rooms = []struct {
	folder string
	plain  bool
}{
	{folder: "pkg/controller/appconfig", plain: true},
	{folder: "pkg/controller/appstack", plain: true},
	{folder: "pkg/controller/backup", plain: true},
	{folder: "pkg/controller/demoapp"},
	{folder: "pkg/controller/demoappcluster", plain: true},
	{folder: "pkg/controller/ecommerceplatform", plain: true},
	{folder: "pkg/controller/memcachedbackup", plain: true},
	{folder: "pkg/controller/postgresql", plain: true},
	{folder: "pkg/controller/watches"},
	{folder: "pkg/controller/webapp", plain: true},
	{folder: "pkg/controller/website", plain: true},
}

// layers are all folders under pkg but for the rooms, and what only tests use: a folder
// under pkg that neither names is an error. What lies below a layer belongs to it, except
// below the plumbing.
var layers = []layer{
	{folder: "pkg/apis", may: []string{"pkg/apis/child", "pkg/apis/release", "pkg/apis/workload"}, mayInTests: []string{"test/crd"}},
	{folder: "pkg/apis/child"},
	{folder: "pkg/apis/meta"},
	{folder: "pkg/apis/release"},
	{folder: "pkg/apis/workload"},
	{folder: "pkg/generated", may: []string{"pkg/apis", "pkg/apis/child", "pkg/apis/release", "pkg/apis/workload"}},
	{folder: "pkg/health"},
	{folder: engine, may: []string{"pkg/health", "pkg/overlay", "pkg/ssa"}},
	{folder: "pkg/overlay"},
	{folder: "pkg/rawjson"},
	{folder: "pkg/serving"},
	{folder: "pkg/ssa"},
	{folder: plumbing, may: []string{"pkg/apis/meta"}},
	{folder: "pkg/controller/audit", may: []string{plumbing, "pkg/controller/naming"}},
	{folder: "pkg/controller/child", may: []string{
		"pkg/apis/child", "pkg/apis/meta", "pkg/health", "pkg/overlay", "pkg/ssa",
		plumbing, "pkg/controller/event", "pkg/controller/status",
	}},
	{folder: "pkg/controller/claim", may: []string{plumbing}},
	{folder: "pkg/controller/cleanup", may: []string{plumbing, "pkg/controller/endpoint"}},
	{folder: "pkg/controller/component", may: []string{
		"pkg/apis/child", "pkg/apis/meta", plumbing, "pkg/controller/child", "pkg/controller/message", "pkg/controller/status",
	}},
	{folder: "pkg/controller/custom", may: []string{
		"pkg/apis", "pkg/apis/meta", "pkg/apis/release", "pkg/rawjson", plumbing, "pkg/controller/kind", "pkg/controller/values",
	}},
	{folder: "pkg/controller/datastore", may: []string{
		"pkg/apis", "pkg/apis/child", "pkg/ssa", plumbing, "pkg/controller/child",
	}},
	{folder: "pkg/controller/endpoint"},
	{folder: fakes, may: []string{plumbing, passLog}},
	{folder: "pkg/controller/dump", may: []string{"pkg/apis", "pkg/controller/runs", "pkg/controller/workload"}},
	{folder: "pkg/controller/event", may: []string{"pkg/apis/meta", "pkg/controller/message"}},
	{folder: "pkg/controller/finalizer", may: []string{plumbing}},
	{folder: "pkg/controller/images", may: []string{"pkg/controller/registries"}},
	{
		folder:     "pkg/controller/kind",
		may:        []string{"pkg/apis/meta", plumbing, "pkg/controller/event", "pkg/controller/finalizer", "pkg/controller/status"},
		mayInTests: []string{"pkg/apis", "pkg/generated"},
	},
	{folder: "pkg/controller/license", may: []string{plumbing, "pkg/controller/endpoint"}},
	{folder: "pkg/controller/message"},
	{folder: "pkg/controller/mysql", may: []string{"pkg/controller/datastore", "pkg/controller/child", "pkg/controller/workload"}},
	{folder: "pkg/controller/naming"},
	{folder: "pkg/controller/redact", may: []string{"pkg/controller/message"}},
	{folder: "pkg/controller/registries"},
	{folder: "pkg/controller/release", may: []string{
		"pkg/apis/release", "pkg/apis/meta", plumbing, engine, "pkg/controller/event", "pkg/controller/kind", "pkg/controller/redact",
		"pkg/controller/status",
	}},
	{folder: "pkg/controller/release/gates", may: []string{
		"pkg/apis/release", "pkg/apis/meta", plumbing, engine, "pkg/controller/kind", "pkg/controller/license",
		"pkg/controller/release", "pkg/controller/rollout", "pkg/controller/window",
	}},
	{folder: "pkg/controller/release/releasetest", may: []string{engine, "pkg/ssa"}, mayInTests: []string{"pkg/controller/release"}},
	{folder: "pkg/controller/values", may: []string{"pkg/apis/release", "pkg/apis/meta", "pkg/rawjson", plumbing, "pkg/controller/redact"}},
	{folder: "pkg/controller/reload", may: []string{"pkg/ssa", plumbing, "pkg/controller/child"}},
	{folder: "pkg/controller/rollout"},
	{folder: "pkg/controller/runs", may: []string{plumbing, "pkg/controller/child", "pkg/controller/message", "pkg/controller/window"}},
	{folder: "pkg/controller/sandbox", may: []string{"pkg/controller/message"}},
	{folder: "pkg/controller/secretkeys", may: []string{plumbing, "pkg/controller/child"}},
	{folder: "pkg/controller/served"},
	{folder: "pkg/controller/status", may: []string{"pkg/apis/meta", plumbing, "pkg/controller/message"}},
	{folder: "pkg/controller/tier", may: []string{
		"pkg/apis", "pkg/apis/workload", "pkg/generated", "pkg/controller/child", "pkg/controller/component",
		"pkg/controller/datastore", "pkg/controller/mysql", "pkg/controller/workload",
	}},
	// A room that uses the API only.
	{folder: "pkg/controller/demoappcluster", may: []string{
		"pkg/apis", "pkg/apis/meta", "pkg/apis/release", "pkg/generated",
		plumbing, "pkg/controller/child", "pkg/controller/event", "pkg/controller/finalizer",
		"pkg/controller/kind", "pkg/controller/naming", "pkg/controller/redact", "pkg/controller/status",
	}},
	{
		folder:     "pkg/controller/watches/file",
		may:        []string{"pkg/apis/release", "pkg/controller/message", "pkg/controller/sandbox", "pkg/controller/values"},
		mayInTests: []string{"test/crd"},
	},
	{folder: "pkg/controller/window"},
	{folder: "pkg/controller/workload", may: []string{"pkg/apis/workload"}},
	{folder: "pkg/operator", may: []string{plumbing, "pkg/serving"}},
	{folder: "pkg/operator/releasekinds", may: []string{
		"pkg/operator", engine, plumbing, "pkg/controller/event", "pkg/controller/watches", "pkg/controller/watches/file",
	}},
	{folder: "pkg/webhook", may: []string{"pkg/serving"}, mayInTests: []string{fakes}},
	{
		folder:     "pkg/webhook/webapp",
		may:        []string{"pkg/apis", "pkg/apis/workload", "pkg/controller/registries", "pkg/webhook"},
		mayInTests: []string{"test/crd", "test/webappcases"},
	},
	// What only tests use.
	{folder: fakeAPI},
	{folder: releaseWorld, may: []string{engine, fakeAPI, passLog}},
	{folder: "test/crd"},
	{folder: passLog},
	{folder: "test/webappcases"},
}

// restricted lists the modules of others that not every layer may import, and the
// layers that may.
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

// TestEveryPackageHasARule holds that nobody adds a package whose imports nothing limits.
func TestEveryPackageHasARule(t *testing.T) {
	for _, file := range goFiles(t) {
		folder := path.Dir(file)
		if !within(folder, "pkg") {
			continue
		}
		if _, known := layerOf(folder); !known {
			t.Errorf("no rule names %s: add it to layers or rooms", folder)
		}
	}
}

func TestLayerOf(t *testing.T) {
	tests := []struct {
		folder, layer string
	}{
		{"pkg/controller", plumbing},
		{"pkg/helm/charts/demo-app", "pkg/helm"},
		{"pkg/operator", "pkg/operator"},
		{"pkg/controller/demoapp/inner", "pkg/controller/demoapp"},
		{"pkg/controller/demoappcluster", "pkg/controller/demoappcluster"},
		{"pkg/controller/unknown", ""},
		{"pkg/controller/unknown/inner", ""},
		{"pkg/unknown", ""},
		{"pkg", ""},
	}
	for _, test := range tests {
		t.Run(test.folder, func(t *testing.T) {
			if got, known := layerOf(test.folder); known != (test.layer != "") || known && got.folder != test.layer {
				t.Errorf("got %q, %t", got.folder, known)
			}
		})
	}
}

// TestPlainRoomsDoNotReachHelm holds that a plain kind does not get Helm through a step either.
func TestPlainRoomsDoNotReachHelm(t *testing.T) {
	for _, room := range rooms {
		if room.plain && reaches(room.folder, engine) {
			t.Errorf("%s is plain, and its rules lead to %s", room.folder, engine)
		}
	}
	if !reaches("pkg/controller/demoapp", engine) {
		t.Error("a kind with a release does not reach the engine")
	}
}

// TestPackagesDoNotImportTests holds that what others import needs nothing of test.
func TestPackagesDoNotImportTests(t *testing.T) {
	for _, l := range layers {
		for _, target := range l.may {
			if within(l.folder, "pkg") && within(target, "test") {
				t.Errorf("%s may import %s", l.folder, target)
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
		{"test/fakeapi/x.go", module + "/pkg/helm", true},
		{"pkg/helm/x.go", module + "/pkg/controller", true},
		{"pkg/controller/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/controller/x.go", module + "/pkg/generated/openapi", true},
		{"pkg/controller/x.go", module + "/pkg/helm", true},
		{"pkg/controller/x.go", module + "/pkg/controller/status", true},
		{"pkg/controller/x.go", module + "/pkg/controller/demoapp", true},
		{"pkg/controller/status/x.go", module + "/pkg/controller", false},
		{"pkg/controller/status/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/controller/audit/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/controller/release/x.go", module + "/pkg/helm", false},
		{"pkg/controller/release/x.go", "helm.sh/helm/v4/pkg/action", true},
		{"pkg/controller/finalizer/x.go", module + "/pkg/helm", true},
		{"pkg/controller/demoapp/x.go", module + "/pkg/controller", false},
		{"pkg/controller/demoapp/x.go", module + "/pkg/controller/release", false},
		{"pkg/controller/demoapp/x.go", module + "/pkg/generated/listers/demo/v1alpha1", false},
		{"pkg/controller/demoapp/x.go", module + "/pkg/controller/website", true},
		{"pkg/controller/demoapp/inner/x.go", module + "/pkg/controller/demoapp", false},
		{"pkg/controller/demoapp/x.go", module + "/cmd/demoapp-controller/app", true},
		{"pkg/controller/demoapp/x.go", "helm.sh/helm/v4/pkg/release/v1", true},
		{"pkg/controller/demoappcluster/x.go", module + "/pkg/controller/child", false},
		{"pkg/controller/demoappcluster/x.go", module + "/pkg/controller/demoapp", true},
		{"pkg/controller/demoappcluster/x.go", module + "/pkg/helm", true},
		{"pkg/controller/demoapp/x.go", module + "/pkg/controller/demoappcluster", true},
		{"pkg/apis/webapp/v1/x_test.go", module + "/test/crd", false},
		{"pkg/apis/webapp/v1/x.go", module + "/test/crd", true},
		{"pkg/controller/website/x.go", module + "/pkg/controller/child", false},
		{"pkg/controller/website/x.go", module + "/pkg/controller/demoapp", true},
		{"pkg/controller/website/x.go", module + "/pkg/helm", true},
		{"pkg/controller/demoappcluster/x.go", module + "/pkg/controller/release", true},
		{"pkg/controller/demoapp/x.go", module + "/pkg/operator", true},
		{"pkg/controller/unknown/x.go", module + "/pkg/controller", true},
		{"pkg/controller/unknown/x.go", module + "/pkg/controller/unknown", true},
		{"pkg/controller/demoapp/x.go", module + "/pkg/controller/unknown", true},
		{"pkg/operator/x.go", module + "/pkg/controller", false},
		{"pkg/operator/x.go", module + "/pkg/controller/demoapp", true},
		{"pkg/operator/x.go", module + "/pkg/controller/status", true},
		{"pkg/operator/x.go", module + "/pkg/generated/clientset/versioned", true},
		{"pkg/operator/x.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/operator/x.go", module + "/pkg/helm", true},
		{"pkg/operator/x_test.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/operator/x.go", module + "/cmd/demoapp-controller/app", true},
		{"cmd/demoapp-controller/app/x.go", module + "/pkg/operator", false},
		{"cmd/demoapp-controller/app/x.go", module + "/pkg/controller/demoapp", false},
		{"cmd/demoapp-controller/app/x.go", "helm.sh/helm/v4/pkg/action", true},
		{"cmd/demoapp-controller/app/x.go", "sigs.k8s.io/controller-runtime/pkg/client", true},
		{"pkg/helm/x.go", "sigs.k8s.io/controller-runtime", true},
		{"pkg/controller/x.go", module + "/pkg/controller/controllertest", true},
		{"pkg/controller/x_test.go", module + "/pkg/controller/controllertest", false},
		{"pkg/controller/x_test.go", module + "/pkg/controller", false},
		{"pkg/controller/x_test.go", module + "/pkg/apis/demo/v1alpha1", true},
		{"pkg/controller/status/x_test.go", module + "/pkg/controller/controllertest", false},
		{"pkg/apis/demo/v1alpha1/x_test.go", module + "/pkg/controller/controllertest", true},
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
	if !ours || !within(folder, "pkg") && !within(folder, fakeAPI) {
		return ""
	}
	from, known := layerOf(folder)
	if !known {
		return "no rule names " + folder
	}
	to, known := layerOf(target)
	if !known {
		return "no rule names " + target
	}
	if from.folder == to.folder || slices.Contains(from.may, to.folder) {
		return ""
	}
	inTests := append([]string{fakeAPI, passLog}, from.mayInTests...)
	if within(folder, plumbing) {
		inTests = append(inTests, fakes, releaseWorld)
	}
	if strings.HasSuffix(file, "_test.go") && slices.Contains(inTests, to.folder) {
		return ""
	}
	return from.folder + " may import only [" + strings.Join(from.may, ", ") + "] of this module"
}

// layerOf returns the layer that a folder of this module belongs to, and whether a
// rule names it.
func layerOf(folder string) (found layer, known bool) {
	for _, l := range layers {
		below := within(folder, l.folder) && l.folder != plumbing
		if (below || folder == l.folder) && len(l.folder) > len(found.folder) {
			found, known = l, true
		}
	}
	if known {
		return found, true
	}
	for _, room := range rooms {
		if within(folder, room.folder) {
			may := append([]string{
				"pkg/apis", "pkg/apis/child", "pkg/apis/meta", "pkg/apis/release", "pkg/apis/workload", "pkg/generated", plumbing, engine,
			}, steps...)
			if room.plain {
				may = slices.DeleteFunc(may, func(step string) bool { return reaches(step, engine) })
			}
			return layer{folder: room.folder, may: may}, true
		}
	}
	return layer{}, false
}

// reaches reports whether the rules let a folder import another, be it through others.
func reaches(folder, target string) bool {
	seen := map[string]bool{}
	for next := []string{folder}; len(next) > 0; next = next[1:] {
		if from, known := layerOf(next[0]); known && !seen[from.folder] {
			seen[from.folder] = true
			next = append(next, from.may...)
		}
	}
	return seen[target]
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

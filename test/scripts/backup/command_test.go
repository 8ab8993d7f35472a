// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package backup

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/example/demoapp-controller/pkg/controller/kinds/backup/dump"
	"github.com/example/demoapp-controller/pkg/plugin"
	"github.com/example/demoapp-controller/test/expect"
)

// runPlugin is the variable with which the program of the tests is the plugin of kubectl.
const runPlugin = "TEST_RUNS_PLUGIN"

func TestMain(m *testing.M) {
	if os.Getenv(runPlugin) != "" {
		os.Exit(plugin.Execute(context.Background(), plugin.Options{}, os.Args[1:],
			genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}))
	}
	os.Exit(m.Run())
}

// apiServer has the CronJob of the Backup "orders", and runs a Job when it is created.
type apiServer struct {
	r        *run
	template *corev1.PodTemplateSpec
	job      *batchv1.Job
	pod      corev1.Pod
	logs     map[string]string
}

func (a *apiServer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var answer any
	switch path := request.Method + " " + request.URL.Path; {
	case path == "GET /apis/batch/v1/namespaces/shop/cronjobs/orders-cronjob":
		answer = &batchv1.CronJob{
			TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "CronJob"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders-cronjob"},
			Spec:       batchv1.CronJobSpec{JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: *a.template}}},
		}
	case path == "POST /apis/batch/v1/namespaces/shop/jobs":
		body, err := io.ReadAll(request.Body)
		expect.NoError(a.r.t, err)
		a.job = &batchv1.Job{}
		expect.NoError(a.r.t, runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, a.job))
		a.job.TypeMeta = metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}
		a.runJob() //nolint:contextcheck // A Job does not end with the request that creates it.
		answer = a.job
	case strings.HasPrefix(path, "GET /apis/batch/v1/namespaces/shop/jobs/"):
		answer = a.job
	case path == "GET /api/v1/namespaces/shop/pods":
		answer = &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{a.pod}}
	case strings.HasSuffix(path, "/log"):
		_, _ = w.Write([]byte(a.logs[request.URL.Query().Get("container")]))
		return
	default:
		http.NotFound(w, request)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// runJob runs the containers of the Job as a node does, one after the other.
func (a *apiServer) runJob() {
	a.pod = corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: a.job.Name + "-x"}}
	a.logs = map[string]string{}
	end := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	spec := a.job.Spec.Template.Spec
	for i, container := range append(spec.InitContainers, spec.Containers...) {
		a.r.environment = map[string]string{"PATH": a.r.environment["PATH"], "TERMINATION_LOG": a.r.environment["TERMINATION_LOG"]}
		var ac corev1ac.ContainerApplyConfiguration
		convert(a.r.t, container, &ac)
		a.r.setEnvironment(ac)
		code, output, message := a.r.script(filepath.Base(container.Command[1]), container.Command[2:]...)
		status := corev1.ContainerStatus{Name: container.Name, State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: int32(code), Message: message},
		}}
		a.logs[container.Name] = output
		if i < len(spec.InitContainers) {
			a.pod.Status.InitContainerStatuses = append(a.pod.Status.InitContainerStatuses, status)
		} else {
			a.pod.Status.ContainerStatuses = append(a.pod.Status.ContainerStatuses, status)
		}
		if code != 0 {
			end.Type = batchv1.JobFailed
			break
		}
	}
	a.job.Status.Conditions = []batchv1.JobCondition{end}
}

// convert converts an object by its JSON.
func convert(t *testing.T, from, to any) {
	t.Helper()
	data, err := json.Marshal(from)
	expect.NoError(t, err)
	expect.NoError(t, json.Unmarshal(data, to))
}

// shell returns a function that runs commands for a shell. kubectl is the plugin of this
// repository, "kubectl exec POD -- PROGRAM" runs a program of PostgreSQL on the server of the test
// as its administrator, and Secrets with a login are directories.
func shell(t *testing.T, d *database, r *run) func(commands string) (string, error) {
	t.Helper()
	pod := dump.Pod(backupOf(source(d, "shop"), r.destination), dump.Settings{ConfigMap: "orders-scripts", Retention: 24 * 60 * 60})
	a := &apiServer{r: r, template: &corev1.PodTemplateSpec{}}
	convert(t, corev1ac.PodTemplateSpec().WithSpec(pod), a.template)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	r.logins = filepath.Join(dir, "secrets")
	program, err := os.Executable()
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "config"), fmt.Appendf(nil, `
clusters: [{name: test, cluster: {server: %q}}]
contexts: [{name: test, context: {cluster: test, namespace: shop}}]
current-context: test
`, server.URL), 0o600))
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "kubectl"), fmt.Appendf(nil, `#!/bin/sh
case $1 in
create) mkdir -p "secrets/$4" && printf %%s "${5#--from-literal=username=}" >"secrets/$4/username" && cp "${6#--from-file=}" "secrets/$4" ;;
delete) rm -r "secrets/$3" ;;
demoapp) shift; exec env %s=1 KUBECONFIG=%s/config %s "$@" ;;
exec)
	while [ "$1" != -- ]; do pod=$1; shift; done
	program=$2
	shift 2
	export PGDATABASE=postgres
	if [ "$program" = psql ]; then set -- "$@" -X -q -v ON_ERROR_STOP=1; fi
	if [ -e "servers/$pod" ]; then . "servers/$pod"; else port=%d socket=%s; fi
	exec "$program" -p "$port" "$@" -h "$socket" -U admin ;;
esac
`, runPlugin, dir, program, d.port, d.socket), 0o755))
	return func(commands string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", commands)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
		output, err := cmd.CombinedOutput()
		return string(output), err
	}
}

// documented returns the commands of a page, by name.
func documented(t *testing.T, name string) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/" + name)
	expect.NoError(t, err)
	blocks := map[string]string{}
	for _, block := range regexp.MustCompile("(?s)<!-- test: ([a-z ]+) -->\n+ *```bash\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks[block[1]] = block[2]
	}
	return blocks
}

// TestDocumentedRestore runs the commands of an owner.
func TestDocumentedRestore(t *testing.T) {
	blocks := documented(t, "backup.md")
	d, r := newMixed(t)
	do := shell(t, d, r)

	list, err := do(blocks["list the dumps"])
	if err != nil || !strings.Contains(list, "\nshop.orders-") {
		t.Errorf("the list of dumps is %q (%v)", list, err)
	}
	output, err := do(blocks["restore"])
	if err == nil || !strings.Contains(output, `error: the restore failed: database orders_restored is unchanged: it lacks extensions`) {
		t.Errorf("a restore without an extension ends with %v:\n%s", err, output)
	}
	output, err = do(blocks["create the extension"])
	if err != nil || !strings.Contains(output, "loaded shop.orders-") {
		t.Fatalf("the restore ends with %v:\n%s", err, output)
	}
	t.Logf("the restore prints:\n%s", output)
	expect.Equal(t, "content", wantContent, d.execute("orders_restored", "SET ROLE app; "+content))
	output, err = do(blocks["replace"])
	if err != nil || !strings.Contains(output, "loaded shop.orders-") {
		t.Errorf("replacing the tables ends with %v:\n%s", err, output)
	}
	expect.Equal(t, "content", wantContent, d.execute("orders_restored", "SET ROLE app; "+content))
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/example/demoapp-controller/test/expect"
)

// cronJob is the CronJob of the Backup "orders", with the parts that a restore uses.
const cronJob = `{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": "shop", "name": "orders-cronjob"}, "spec": {"jobTemplate": {
	"metadata": {"labels": {"backup.example.com/backup": "orders"}},
	"spec": {"backoffLimit": 2, "podFailurePolicy": {"rules": []}, "template": {"spec": {"restartPolicy": "Never",
		"initContainers": [{"name": "dump", "env": [{"name": "BACKUP_DATABASE", "value": "orders"}, {"name": "BACKUP_HOST", "value": "db"},
			{"name": "BACKUP_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "login", "key": "password"}}}]}],
		"containers": [{"name": "upload", "env": [{"name": "BACKUP_BUCKET", "value": "backups"}]}]}}}}}}`

// TestRestoreCommand: test/scripts/backup runs Jobs of this command with real servers.
func TestRestoreCommand(t *testing.T) {
	t.Parallel()
	failed := `{"conditions": [{"type": "Failed", "status": "True", "message": "Job has reached the limit"}]}`
	complete := `{"conditions": [{"type": "Complete", "status": "True"}]}`
	podFailed := `{"initContainerStatuses": [{"name": "fetch", "state": {"terminated": {"exitCode": 22, "message": "no dump\u001b[31m"}}}]}`
	tests := map[string]struct {
		args       []string
		job, pod   string
		code       int
		out        string
		has, lacks []string
	}{
		"no Backup":      {code: 3, out: "error: name one Backup as NAME or backup/NAME; kubectl demoapp get backup lists them\n"},
		"no such Backup": {args: []string{"other"}, code: 3, out: `error: namespace "shop" has no CronJob "other-cronjob": kubectl get backup other -n shop says why`},
		"a database as an option": {
			args: []string{"orders", "--database=--help"}, code: 3, out: "--database: must be at most 63 letters",
		},
		"not confirmed": {
			args: []string{"orders", "--replace"}, code: 3,
			out: `Replace the tables of database "orders"? A restore that fails leaves a database of mysql or mongodb half replaced. [y/N] ` +
				"error: nothing was restored",
		},
		"a failed pod":   {args: []string{"orders"}, job: failed, pod: podFailed, code: 3, out: "error: the restore failed: no dump\ufffd[31m"},
		"no pod is left": {args: []string{"orders"}, job: failed, pod: "{}", code: 3, out: "error: the restore failed: Job has reached the limit"},
		"a Job that may not be read": {
			args: []string{"orders"}, job: "Forbidden", code: 3,
			out: `error: the Job goes on, but it cannot be observed: jobs.batch "orders-restore-x" is forbidden`,
		},
		"a Job that was deleted": {args: []string{"orders"}, job: "NotFound", code: 3, out: `error: job "orders-restore-x" was deleted`},
		"restored": {
			args: []string{"orders", "--database=copy", "--file=x.dump", "--replace", "--yes", "--credentials-secret=admin", "--host=elsewhere", "--port=6432"},
			job:  complete, pod: "{}",
			has: []string{
				`"name":"RESTORE_DATABASE","value":"copy"`, `"name":"RESTORE_FILE","value":"x.dump"`, `"name":"RESTORE_REPLACE","value":"true"`,
				`"name":"admin","key":"password"`, `"name":"BACKUP_HOST","value":"elsewhere"`, `"name":"BACKUP_PORT","value":"6432"`,
				`"name":"BACKUP_DATABASE","value":"orders"`, `"command":["sh","/scripts/restore.sh","fetch"]`, `"command":["sh","/scripts/restore.sh","load"]`,
				`"backoffLimit":0`, `"ttlSecondsAfterFinished":604800`,
			},
			lacks: []string{"podFailurePolicy", `"name":"login"`, "--yes"},
		},
		"a list": {
			args: []string{"orders", "--list"}, job: complete, pod: "{}",
			has: []string{`"command":["sh","/scripts/restore.sh","list"]`}, lacks: []string{"BACKUP_PASSWORD", "initContainers"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			created := ""
			w := newRestoreWorld(t, &created, test.job, test.pod)

			code, out, errOut := w.run(t, append([]string{"restore"}, test.args...)...)

			expect.Equal(t, "exit code", test.code, code)
			expect.Contains(t, "output", out+errOut, test.out)
			for _, part := range test.has {
				expect.Contains(t, "Job", created, part)
			}
			for _, part := range test.lacks {
				if strings.Contains(created, part) {
					t.Errorf("the Job has %s: %s", part, created)
				}
			}
			expect.Equal(t, "a Job is created", test.job != "", created != "")
		})
	}
}

// refusals are the codes of reasons for which the API server refuses to show a Job.
var refusals = map[string]int{"Forbidden": http.StatusForbidden, "NotFound": http.StatusNotFound}

// newRestoreWorld returns a world with the CronJob of a Backup. Jobs end at once with the status,
// or are refused for the reason that job is, and their pod has the status.
func newRestoreWorld(t *testing.T, created *string, job, pod string) *releaseWorld {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer string
		switch path := request.Method + " " + request.URL.Path; {
		case strings.HasSuffix(path, "/cronjobs/orders-cronjob"):
			answer = cronJob
		case strings.HasPrefix(path, "POST "):
			body, err := io.ReadAll(request.Body)
			expect.NoError(t, err)
			sent := &batchv1.Job{}
			expect.NoError(t, runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), body, sent))
			text, err := json.Marshal(sent)
			expect.NoError(t, err)
			*created = string(text)
			answer = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "shop", "name": "orders-restore-x"}}`
		case strings.HasSuffix(path, "/jobs/orders-restore-x") && refusals[job] != 0:
			w.WriteHeader(refusals[job])
			answer = fmt.Sprintf(`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": %d, "reason": %q,
				"message": "jobs.batch \"orders-restore-x\" is forbidden"}`, refusals[job], job)
		case strings.HasSuffix(path, "/jobs/orders-restore-x"):
			answer = `{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "shop", "name": "orders-restore-x"}, "status": ` + job + `}`
		case strings.HasSuffix(path, "/pods"):
			answer = `{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"namespace": "shop", "name": "x"}, "status": ` + pod + `}]}`
		default:
			w.WriteHeader(http.StatusNotFound)
			answer = `{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound"}`
		}
		_, _ = w.Write([]byte(answer))
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "config")
	expect.NoError(t, os.WriteFile(kubeconfig, []byte(`
clusters: [{name: fake, cluster: {server: "`+server.URL+`"}}]
contexts: [{name: fake, context: {cluster: fake, namespace: shop}}]
current-context: fake
`), 0o600))
	return &releaseWorld{kubeconfig: kubeconfig}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package file_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches/file"
)

// FuzzParse checks arbitrary files. Parse neither panics nor allocates much memory. Its errors have
// one line each and do not show the environment. The entries are complete, and can be used with any
// resource.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "- x", memcached + "}", redis + "\n" + nginx, redis + "\n" + redis, "- &a [*a]", "a: {b: [c", "- a\n---\n- b",
		memcached + ", <<: {scope: Namespace}, unknown: 1, timeout: 5 minutes}",
		memcached + `, overrideValues: {a: $SECRET, b: "{{ env \"SECRET\" }}", c: "{{ repeat 3 .x }}", d: 1e6, e: , f: {}}}`,
		memcached + `, releaseName: "{{ .metadata.name | trunc 5 }}", releaseNamespace: a, serviceAccountName: b}`,
		memcached + `, values: "{a: {{ add .spec.size 1 }}, b: \"{{ .metadata.name }}\", c: {{ toYaml .spec | nindent 2 }}}", selector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}`,
		memcached + ", drift: {mode: Warn, ignore: [{kind: A, paths: [/a]}]}, remediation: {retries: 3}, maxHistory: 3, waitForReady: on}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		entries, err := file.Parse(fileName, []byte(text), environment)
		runtime.ReadMemStats(&after)

		if took := after.TotalAlloc - before.TotalAlloc; took > 256<<20 {
			t.Errorf("allocated %d MiB", took>>20)
		}
		checkErrors(t, text, err)
		for _, entry := range entries {
			if entry.GroupVersionKind.Version == "" || entry.GroupVersionKind.Kind == "" || entry.Chart == "" || entry.Selector == nil {
				t.Errorf("incomplete entry %+v", entry)
			}
			object := resource(map[string]any{"size": int64(3)})
			if name, err := entry.ReleaseName.Execute(object); err == nil && (name == "" || len(name) > file.MaxReleaseName) {
				t.Errorf("release name %q", name)
			}
			if entry.Values == nil {
				continue
			}
			if values, err := entry.Values.Execute(object); err == nil && values == nil {
				t.Error("neither values nor an error")
			}
		}
	})
}

func checkErrors(t *testing.T, text string, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var located *file.Error
	if !errors.As(err, &located) {
		t.Errorf("got an error without a place: %v", err)
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) > 101 {
		t.Errorf("got %d errors", len(lines))
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, fileName+":") || len(line) > 8<<10 {
			t.Errorf("got the error %.300q", line)
		}
	}
	if secret, _ := environment("SECRET"); strings.Contains(err.Error(), secret) && !strings.Contains(text, secret) {
		t.Errorf("the error shows a secret: %v", err)
	}
}

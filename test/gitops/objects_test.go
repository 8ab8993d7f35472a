// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// object is a custom resource, and the place that has it.
type object struct {
	where   string
	content map[string]any
}

// block matches the YAML blocks of a page.
var block = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```\n")

// decisive matches text with a condition that decides on the health.
var decisive = regexp.MustCompile(`type: (Ready|Reconciling|Stalled)\b`)

// documented returns the statuses in the YAML blocks of the pages, as objects of the kind DemoApp.
func documented(t *testing.T) []object {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []object
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range block.FindAllSubmatchIndex(content, -1) {
			text := string(content[found[2]:found[3]])
			if !decisive.MatchString(text) {
				continue
			}
			line := 2 + strings.Count(string(content[:found[0]]), "\n")
			where := fmt.Sprintf("docs/%s:%d", filepath.Base(page), line)
			objects = append(objects, object{where: where, content: complete(t, where, text)})
		}
	}
	return objects
}

// complete makes an object of a block: a whole status, its conditions, or single conditions.
func complete(t *testing.T, where, text string) map[string]any {
	t.Helper()
	if strings.HasPrefix(strings.TrimSpace(text), "- ") {
		text = "conditions:\n" + text
	}
	content := parse(t, where, text)
	status, ok := content["status"].(map[string]any)
	if !ok {
		status = map[string]any{"conditions": content["conditions"]}
	}
	metadata, ok := content["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
	}
	return map[string]any{"apiVersion": "demo.example.com/v1alpha1", "kind": "DemoApp", "metadata": metadata, "status": status}
}

// recorded returns the objects in testdata.
func recorded(t *testing.T) []object {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var objects []object
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, document := range strings.Split(string(content), "\n---\n") {
			where := fmt.Sprintf("%s, document %d", file, i+1)
			objects = append(objects, object{where: where, content: parse(t, where, document)})
		}
	}
	return objects
}

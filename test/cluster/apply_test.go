// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"testing"

	"github.com/example/demoapp-controller/test/repository"
)

func TestDecode(t *testing.T) {
	objects, err := decode([]byte(`# A comment.
---
kind: Namespace
metadata: {name: a}
---
# Nothing but a comment.
---
kind: Secret
metadata: {name: b}
`))
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 2 || describe(objects[0]) != "Namespace a" || describe(objects[1]) != "Secret b" {
		t.Errorf("got %v", objects)
	}
	if _, err := decode([]byte("kind: [")); err == nil {
		t.Error("no error for what is no YAML")
	}
}

func TestLoad(t *testing.T) {
	root, err := repository.Root()
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{root: root}
	objects, err := c.load([]string{"artifacts/deploy"})
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) == 0 || describe(objects[0]) != "Namespace "+OperatorNamespace {
		t.Errorf("the namespace does not come first: %v", objects)
	}
	if _, err := c.load([]string{"artifacts/missing.yaml"}); err == nil {
		t.Error("no error for a missing file")
	}
}

func TestNamespacePrefix(t *testing.T) {
	tests := []struct{ test, want string }{
		{test: "TestDrift/Service_changed", want: "drift-service-changed-"},
		{test: "TestAVeryLongNameThatGoesOnForAWhile/and_on", want: "averylongnamethatgoesonforawhi-"},
		{test: "Test123456789012345678901234567/x", want: "123456789012345678901234567-x-"},
		{test: "Test", want: "test-"},
	}
	for _, test := range tests {
		if got := namespacePrefix(test.test); got != test.want {
			t.Errorf("namespacePrefix(%q) = %q, want %q", test.test, got, test.want)
		}
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/crd"
)

const (
	file  = "artifacts/kinds/appconfig/crd.yaml"
	least = `application: shop, environment: prod, config: {a: b}`
)

func TestAppConfigAdmission(t *testing.T) {
	keys := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("k%d: v", i))
		}
		return "{application: shop, environment: dev, config: {" + strings.Join(all, ", ") + "}}"
	}
	tests := crd.Cases{
		{"the least", "shop", "{" + least + "}", "", ""},
		{"everything", "shop", "{" + least + `, values: {a: 1, b: [x], c: {d: true}}, environments: {dev: {a: 2}, staging: {}, prod: {c: {d: null}}}}`, "", ""},
		{"an application of 56 characters", "shop", `{application: ` + strings.Repeat("a", 56) + `, environment: dev, config: {a: b}}`, "", ""},
		{"an empty template", "shop", `{application: shop, environment: dev, config: {a: ""}}`, "", ""},
		{"128 keys", "shop", keys(128), "", ""},
		{"a template of 65,536 characters", "shop", `{application: shop, environment: dev, config: {a: ` + strings.Repeat("x", 65536) + `}}`, "", ""},
		{"no spec", "shop", `null`, "spec", "Required value"},
		{"no application", "shop", `{environment: dev, config: {a: b}}`, "spec.application", "Required value"},
		{"an application that is no label", "shop", `{application: Shop, environment: dev, config: {a: b}}`, "spec.application", "must be a DNS label, such as shop"},
		{"an application too long", "shop", `{application: ` + strings.Repeat("a", 57) + `, environment: dev, config: {a: b}}`, "spec.application", "56"},
		{"no environment", "shop", `{application: shop, config: {a: b}}`, "spec.environment", "Required value"},
		{"another environment", "shop", `{application: shop, environment: production, config: {a: b}}`, "spec.environment", `supported values: "dev", "staging", "prod"`},
		{"no config", "shop", `{application: shop, environment: dev}`, "spec.config", "Required value"},
		{"an empty config", "shop", `{application: shop, environment: dev, config: {}}`, "spec.config", "at least 1"},
		{"too many keys", "shop", keys(129), "spec.config", "at most 128"},
		{"a key with a slash", "shop", `{application: shop, environment: dev, config: {a/b: c}}`, "spec.config", "keys consist of"},
		{"a template too long", "shop", `{application: shop, environment: dev, config: {a: ` + strings.Repeat("x", 65537) + `}}`, "spec.config.a", "65536"},
		{"values that are a list", "shop", "{" + least + `, values: [a]}`, "spec.values", "must be of type object"},
		{"a name with a dot", "shop.example", "{" + least + "}", "metadata", "metadata.name must be a DNS-1035 label"},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestAppConfigColumns(t *testing.T) {
	crd.Load(t, file).TestColumns(t, "shop", "{"+least+"}", map[string]any{"configHash": "0a1b", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		map[string]any{"Name": "shop", "Application": "shop", "Environment": "prod", "Hash": "0a1b", "Ready": "True"})
}

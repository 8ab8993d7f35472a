// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"testing"

	"github.com/example/demoapp-controller/test/crd"
)

func TestRemovalGracePeriod(t *testing.T) {
	const field, message = "spec.removalGracePeriod", "must be a duration from 0s to 168h, such as 90s or 1h30m"
	spec := func(value string) string {
		return `{template: {spec: {apiKey: verysecret}}, removalGracePeriod: ` + value + `}`
	}
	crd.Load(t, "artifacts/crds/demo.example.com_demoappclusters.yaml").TestAdmission(t, crd.Cases{
		{"none", "web", `{template: {spec: {apiKey: verysecret}}}`, "", ""},
		{"zero", "web", spec("0s"), "", ""},
		{"fractions", "web", spec("1h1.5m300ms"), "", ""},
		{"a week", "web", spec("168h"), "", ""},
		{"more than a week", "web", spec("168h1s"), field, message},
		{"negative", "web", spec("-1s"), field, message},
		{"without a unit", "web", spec(`"5"`), field, message},
		{"empty", "web", spec(`""`), field, message},
		{"a number", "web", spec("5"), field, "must be of type string"},
		{"a long text", "web", spec("1000000000000000000000000000000000h"), field, "32"},
	})
}

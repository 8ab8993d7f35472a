// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"fmt"
	"strings"
	"testing"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/test/expect"
)

// TestLimitsHoldOverAllSources: each source is within the limits, but the first that
// exceeds them in total is refused.
func TestLimitsHoldOverAllSources(t *testing.T) {
	tests := map[string]struct{ text, says string }{
		"bytes": {"a: " + strings.Repeat("x", 400_000), "it has 400003 bytes, and all values of one resource together may have 1048576, of which 248570 are left"},
		"nodes": {"a: [" + strings.Repeat("0,", 8_000) + "0]", "it has 8004 keys, scalars, lists and objects, and all values of one resource together may have 20000, of which 3992 are left"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			data, references := map[string]string{}, []releasev1alpha1.ValuesReference{}
			for i := range 16 {
				key := fmt.Sprintf("k%d", i)
				data[key] = test.text
				references = append(references, releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "base", Key: key})
			}
			w.configMap(data)
			w.create(newApp("a", valuesFrom(references...)))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "conditions", conditions("Ready", "False ValuesInvalid", "Stalled", "True ValuesInvalid", "Deployed", "False ValuesInvalid"), w.conditions("a"))
			expect.Contains(t, "message", w.message("a", apimeta.ConditionReady), `valuesFrom[2]: Key "k2" of ConfigMap "base" cannot be used: `+test.says)

			w.change("a", valuesFrom(references[:2]...))
			w.passes("a", controller.SpecChange)
			expect.Equal(t, "Ready with two sources", "True Healthy", w.conditions("a")["Ready"])
		})
	}
}

func TestAnchorsInSecretAreRefused(t *testing.T) {
	w := newWorld(t)
	w.private("password: &hidden-secret hunter22\nagain: *hidden-secret")
	w.create(newApp("a", valuesFrom(secretValues)))
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "message", `valuesFrom[0]: Key "more" of Secret "private" cannot be used: line 1 has an anchor (&) or an alias (*), `+
		`which are not supported; write the value in full, or quote it if it is a text`, w.message("a", apimeta.ConditionStalled))
	w.private("password: hunter22")
	w.passes("a", controller.SpecChange)
	expect.Equal(t, "Ready without an anchor", "True Healthy", w.conditions("a")["Ready"])
}

// TestSourcesCacheIsLimited: the largest objects are read again in each pass, and small
// ones stay cached.
func TestSourcesCacheIsLimited(t *testing.T) {
	w := newWorld(t)
	w.controller.sources.Limit = 1000
	w.configMap(map[string]string{"values.yaml": "a: " + strings.Repeat("x", 2000)})
	w.private("b: small")
	w.create(newApp("big", valuesFrom(configMapValues)))
	w.create(newApp("small", valuesFrom(secretValues)))
	w.passes("small", controller.SpecChange)
	w.passes("big", controller.SpecChange)
	w.calls.Take()

	w.passes("small", controller.PeriodicResync)
	w.passes("big", controller.PeriodicResync)

	expect.Equal(t, "requests", []string{"get configmaps base"}, w.calls.Take())
	expect.Equal(t, "cached bytes", len("b: small"), w.controller.sources.Kept())
	for _, name := range []string{"small", "big"} {
		w.change(name, valuesFrom())
		w.passes(name, controller.SpecChange)
	}
	expect.Equal(t, "cached bytes in the end", 0, w.controller.sources.Kept())
}

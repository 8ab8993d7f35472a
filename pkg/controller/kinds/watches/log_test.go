// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package watches_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/controller/kinds/watches"
)

// TestHelmLogsWithFieldsOfPass holds that Helm and the engine log in the passes that call them. The
// world checks the fields of all lines with a reconcileID.
func TestHelmLogsWithFieldsOfPass(t *testing.T) {
	bubble(t, []watches.ReleaseKind{caches(t)}, func(w *world) {
		w.create("default/a", map[string]any{"size": int64(3)})

		for _, message := range []string{"creating release", "The release has changed", "Event"} {
			found := false
			for line := range strings.Lines(w.Log.String()) {
				if strings.Contains(line, `"msg":"`+message+`"`) {
					found = true
					if !strings.Contains(line, `"reconcileID":"`) || !strings.Contains(line, `"object":{"name":"a"`) {
						t.Errorf("a line has no fields: %s", line)
					}
				}
			}
			if !found {
				t.Errorf("no line %q in:\n%s", message, w.Log.String())
			}
		}
	})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/example/demoapp-controller/pkg/controller/release/releasetest"
	"github.com/example/demoapp-controller/test/expect"
)

// checkSecrecy checks that errors, events, statuses and audit records do not show the
// key.
func (w *world) checkSecrecy(err error) {
	w.t.Helper()
	said := []string{fmt.Sprint(err), strings.Join(w.recorder.All(), "\n")}
	for _, name := range []string{"a", "b"} {
		if app := w.app(name); app != nil {
			said = append(said, asJSON(w.t, app.Status))
		}
	}
	for _, record := range w.records() {
		said = append(said, asJSON(w.t, record))
		for _, value := range record.Data {
			said = append(said, value)
		}
	}
	for _, text := range said {
		if showsKey(text) {
			w.t.Errorf("shows the key: %s", text)
		}
	}
}

// showsKey reports whether a text contains the key.
func showsKey(text string) bool { return releasetest.Shows(text, plainKey) }

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	expect.NoError(t, err)
	return string(data)
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"k8s.io/klog/v2"
)

// TestLogErrors: each of several errors has its own line.
func TestLogErrors(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	defer klog.ClearLogger()
	klog.SetLoggerWithOptions(logger)

	logErrors(errors.Join(errors.New("first"), errors.Join(errors.New("second"), fmt.Errorf("third: %w", errors.New("cause")))))

	line := func(text string) string { return fmt.Sprintf(`"msg"="The operator ends" "error"=%q`, text) }
	if diff := cmp.Diff([]string{line("first"), line("second"), line("third: cause")}, lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

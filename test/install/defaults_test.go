// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/example/demoapp-controller/cmd/demoapp-controller/app"
)

// operatorDefault matches a value in the table of the chart's README whose description names a
// default of the operator.
var operatorDefault = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*the operator's default, (\\S+)\\. \\|$")

// TestDescribedDefaults holds that the descriptions of values name the defaults of the operator.
func TestDescribedDefaults(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	options := app.NewOptions()

	described := map[string]time.Duration{}
	for _, match := range operatorDefault.FindAllStringSubmatch(string(content), -1) {
		if described[match[1]], err = time.ParseDuration(match[2]); err != nil {
			t.Errorf("%s: %v", match[1], err)
		}
	}

	expected := map[string]time.Duration{
		"leaderElection.leaseDuration": options.LeaderElection.LeaseDuration,
		"leaderElection.renewDeadline": options.LeaderElection.RenewDeadline,
		"leaderElection.retryPeriod":   options.LeaderElection.RetryPeriod,
	}
	if diff := cmp.Diff(expected, described); diff != "" {
		t.Errorf("README.md of the chart (-operator +README):\n%s", diff)
	}
}

// TestDefaultsOfOmittedFlags holds that values whose flags the chart omits by default are the
// defaults of the operator.
func TestDefaultsOfOmittedFlags(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	options := app.NewOptions()

	given := parse[struct {
		AuditNamespace         string
		ShutdownTimeoutSeconds int
	}](t, string(content))

	if given.AuditNamespace != options.AuditNamespace {
		t.Errorf("auditNamespace is %q, the operator's default is %q", given.AuditNamespace, options.AuditNamespace)
	}
	if shutdown := time.Duration(given.ShutdownTimeoutSeconds) * time.Second; shutdown != options.ShutdownTimeout {
		t.Errorf("shutdownTimeoutSeconds is %v, the operator's default is %v", shutdown, options.ShutdownTimeout)
	}
}

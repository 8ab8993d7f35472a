// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestInstall(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.must(demo(t, nil), ActionInstall, CauseNotInstalled)
		if diff := cmp.Diff([]string{
			"create secrets default",
			"apply secrets default/web",
			"apply configmaps default/web",
			"apply services default/web",
			"apply deployments default/web",
			"update secrets default/sh.helm.release.v1.web.v1",
		}, f.taken()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		synctest.Wait()
		f.must(demo(t, nil), ActionNone, CauseNone)
	})
}

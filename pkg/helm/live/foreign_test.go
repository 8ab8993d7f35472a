// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package live

import (
	"testing"

	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/fields"
)

func TestForeign(t *testing.T) {
	var f Foreign
	release := cache.ObjectName{Namespace: "ns", Name: "web"}
	got := &Object{Foreign: "1"}
	got.UID = "uid"
	check := func(step string, want bool) {
		t.Helper()
		if has := f.Has(release, got); has != want {
			t.Errorf("%s: has is %t", step, has)
		}
	}
	check("nobody asked", false)
	f.Set(release, true, nil)
	check("asked", true)
	f.Accept(release, "uid", "1")
	check("accepted", false)
	f.Set(release, true, nil)
	check("asked again", false)
	got.Foreign = "2"
	check("more of it", true)
	got.Foreign = ""
	check("nothing", false)
	f.Set(release, false, nil)
	f.Set(release, true, nil)
	got.Foreign = "1"
	check("after a while", true)
	f.Accept(release, "uid", "1")
	f.Set(release, true, []fields.IgnoreRule{{Kind: "ConfigMap", Paths: []string{"/data"}}})
	check("other fields are ignored", true)
	f.Accept(release, "uid", "1")
	f.Set(release, true, []fields.IgnoreRule{{Kind: "ConfigMap", Paths: []string{"/data"}}})
	check("the same fields are ignored", false)
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package lifecycle

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/integration/apps"
)

// isUnlicensed returns a condition: the newest generation is held for this reason.
func isUnlicensed(reason string) func(*v1alpha1.DemoApp) bool {
	return func(app *v1alpha1.DemoApp) bool {
		return apps.Has(app, releasev1alpha1.ConditionLicensed, metav1.ConditionFalse, reason) &&
			apps.Has(app, apimeta.ConditionReady, metav1.ConditionFalse, reason) &&
			apps.Condition(app, apimeta.ConditionReady).ObservedGeneration == app.Generation
	}
}

func TestLicenseServer(t *testing.T) {
	const token = "hunter2"
	var code atomic.Int32
	var asked atomic.Value
	code.Store(http.StatusForbidden)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.URL.Path + " " + r.URL.Query().Get("image"))
		w.WriteHeader(int(code.Load()))
	}))
	t.Cleanup(server.Close)
	ns := apps.NewExclusive(t, shared)
	args := []string{"-v=7", "--license-retry=2s", "--license-url=" + server.URL + "/{{.Namespace}}/{{.Name}}?image={{.Image}}&token=" + token}
	operator := cluster.StartOperator(t.Context(), t, shared, args...)

	ns.Create(apps.Named("web"))
	app := ns.Await("web", "denied", isUnlicensed(releasev1alpha1.ReasonLicenseDenied))
	if len(ns.Objects("web").All()) > 0 || !strings.Contains(apps.Condition(app, apimeta.ConditionReady).Message, "403 Forbidden") {
		t.Errorf("objects %v, Ready %+v", ns.Objects("web").All(), apps.Condition(app, apimeta.ConditionReady))
	}
	ns.AwaitEvent("web", "Held", releasev1alpha1.ReasonLicenseDenied, "403 Forbidden")
	if want := "/" + ns.Name + "/web nginx:1.27-alpine"; asked.Load() != want {
		t.Errorf("asked for %v, want %s", asked.Load(), want)
	}
	code.Store(http.StatusOK)
	app = ns.AwaitReady("web")
	if !apps.Has(app, releasev1alpha1.ConditionLicensed, metav1.ConditionTrue, releasev1alpha1.ReasonLicenseGranted) {
		t.Errorf("Licensed is %+v", apps.Condition(app, releasev1alpha1.ConditionLicensed))
	}

	// The license is lost while the app runs. A change waits, also after a restart, and drift is
	// corrected.
	code.Store(http.StatusPaymentRequired)
	ns.Change("web", func(spec *v1alpha1.DemoAppSpec) { spec.Image = "nginx:1.28-alpine" }) // The agreement to the old image may still be cached.
	ns.Await("web", "denied", isUnlicensed(releasev1alpha1.ReasonLicenseDenied))
	operator.Stop()
	if strings.Contains(operator.Log(), token) {
		t.Error("the operator has logged the token")
	}
	operator = cluster.StartOperator(t.Context(), t, shared, args...)
	if _, err := shared.Client.CoreV1().ConfigMaps(ns.Name).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"data": {"index.html": "not ours"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	ns.AwaitEvent("web", "DriftCorrected", "ConfigMap web (changed)")
	server.Close()
	app = ns.Await("web", "without an answer", isUnlicensed(releasev1alpha1.ReasonLicenseUnavailable))
	if apps.Revision(app) != 1 {
		t.Errorf("revision %d", apps.Revision(app))
	}
	ns.Delete("web")
	ns.AwaitGone("web")
	operator.Stop()
}

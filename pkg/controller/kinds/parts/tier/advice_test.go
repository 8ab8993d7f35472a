// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	children "github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
)

func TestAdviceNamesFieldOfCause(t *testing.T) {
	const requests = "spec.database.storage requests 10Gi"
	tests := map[string]struct {
		change []func(*tier.Application)
		causes []children.Cause
		want   string
	}{
		"storage that shrinks": {
			nil,
			[]children.Cause{{Reason: databasev1.ReasonStorageShrinks}},
			requests + ", and volumes never shrink: set spec.database.storage to their size or more",
		},
		"storage that cannot grow": {
			nil, []children.Cause{{Reason: databasev1.ReasonStorageNotExpandable}}, requests + ": change spec.database.storage",
		},
		"storage that is refused": {
			nil, []children.Cause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.storage"}}, requests + ": change spec.database.storage",
		},
		"another version": {
			nil, []children.Cause{{Reason: databasev1.ReasonVersionChange}}, "spec.version is that of spec.database.version, 17",
		},
		"a version that is refused": {
			nil, []children.Cause{{Type: metav1.CauseTypeFieldValueNotSupported, Field: "spec.version"}}, "spec.version is that of spec.database.version, 17",
		},
		"another class of storage":       {nil, []children.Cause{{Reason: databasev1.ReasonStorageClassChange}}, ""},
		"a database that does not start": {nil, nil, ""},
		"the volume of a mysql before Kubernetes 1.37": {
			[]func(*tier.Application){mySQL},
			[]children.Cause{{Type: metav1.CauseTypeForbidden, Field: "spec"}},
			requests + ", and the volume of a mysql keeps its size: set spec.database.storage to it",
		},
		"the volume of a mysql": {
			[]func(*tier.Application){mySQL},
			[]children.Cause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.volumeClaimTemplates"}},
			requests + ", and the volume of a mysql keeps its size: set spec.database.storage to it",
		},
		"another field of a mysql": {
			[]func(*tier.Application){mySQL}, []children.Cause{{Type: metav1.CauseTypeFieldValueInvalid, Field: "spec.template.spec.containers[0].image"}}, "",
		},
		"a policy for a mysql": {[]func(*tier.Application){mySQL}, []children.Cause{{}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := newApplication(append(test.change, func(app *tier.Application) { app.Database.StorageSource = "spec.database.storage" })...)

			if got := app.Tiers()[0].Advice(test.causes); got != test.want {
				t.Errorf("advice is %q, want %q", got, test.want)
			}
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier_test

import (
	"testing"

	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/tier"
)

func TestAdviceNamesFieldOfCause(t *testing.T) {
	const requests = "spec.database.storage requests 10Gi"
	tests := map[string]struct {
		change        []func(*tier.Application)
		problem, want string
	}{
		"storage that shrinks": {
			nil, `PostgreSQL "shop-db": spec.storage: 5Gi is less than the 10Gi of PersistentVolumeClaim "data-shop-db-0", and volumes cannot shrink`,
			requests + ", and volumes never shrink: set spec.database.storage to their size or more",
		},
		"storage that is refused": {
			nil, `PostgreSQL "shop-db" was refused: spec.storage: Invalid value: must be at least 1Gi`, requests + ": change spec.database.storage",
		},
		"another version": {
			nil, `PostgreSQL "shop-db": spec.version: the volumes hold data of version 16`, "spec.version is that of spec.database.version, 17",
		},
		"another class of storage": {nil, `PostgreSQL "shop-db": spec.storageClassName: the volumes were made with "fast"`, ""},
		"another cause":            {nil, `PostgreSQL "shop-db": the Secret is missing`, ""},
		"the volume of a mysql": {
			[]func(*tier.Application){mySQL},
			`StatefulSet "shop-db" was refused: spec: Forbidden: updates to statefulset spec for fields other than`,
			requests + ", and the volume of a mysql keeps its size: set spec.database.storage to it",
		},
		"a policy for a mysql": {[]func(*tier.Application){mySQL}, `StatefulSet "shop-db" was refused: the image is not allowed`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			app := newApplication(append(test.change, func(app *tier.Application) { app.Database.StorageSource = "spec.database.storage" })...)

			if got := app.Tiers()[0].Advice(test.problem); got != test.want {
				t.Errorf("advice is %q, want %q", got, test.want)
			}
		})
	}
}

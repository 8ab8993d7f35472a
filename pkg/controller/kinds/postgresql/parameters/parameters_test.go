// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package parameters

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	workloadv1alpha1 "github.com/example/demoapp-controller/pkg/apis/workload/v1alpha1"
	"github.com/example/demoapp-controller/test/expect"
)

func withMemory(limit string) func(*databasev1.PostgreSQL) {
	return func(p *databasev1.PostgreSQL) {
		p.Spec.Resources = &workloadv1alpha1.Resources{Limits: workloadv1alpha1.ResourceList{"memory": resource.MustParse(limit)}}
	}
}

func TestOf(t *testing.T) {
	tests := map[string]struct {
		change func(*databasev1.PostgreSQL)
		want   string
	}{
		"without a limit":                {func(*databasev1.PostgreSQL) {}, ""},
		"512Mi":                          {withMemory("512Mi"), "effective_cache_size = '384MB'\nmaintenance_work_mem = '32MB'\nmax_connections = '100'\nshared_buffers = '128MB'\n"},
		"2Gi":                            {withMemory("2Gi"), "effective_cache_size = '1536MB'\nmaintenance_work_mem = '128MB'\nmax_connections = '204'\nshared_buffers = '512MB'\n"},
		"64Gi":                           {withMemory("64Gi"), "effective_cache_size = '49152MB'\nmaintenance_work_mem = '1024MB'\nmax_connections = '500'\nshared_buffers = '16384MB'\n"},
		"a limit below that of a server": {withMemory("1"), ""},
		"given parameters": {func(p *databasev1.PostgreSQL) {
			withMemory("2Gi")(p)
			p.Spec.Parameters = map[string]databasev1.ParameterValue{"shared_buffers": "1GB", "work_mem": "8MB"}
		}, "effective_cache_size = '1536MB'\nmaintenance_work_mem = '128MB'\nmax_connections = '204'\nshared_buffers = '1GB'\nwork_mem = '8MB'\n"},
		"characters that admission refuses": {func(p *databasev1.PostgreSQL) {
			p.Spec.Parameters = map[string]databasev1.ParameterValue{"work_mem": "8MB'\narchive_command = '\\id"}
		}, "work_mem = '8MB'' archive_command = ''\\\\id'\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := &databasev1.PostgreSQL{}
			test.change(p)

			got := Of(p)

			expect.Equal(t, "parameters", test.want, got)
		})
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package v1_test

import (
	"strings"
	"testing"

	"github.com/example/demoapp-controller/test/crd"
)

const file = "artifacts/kinds/ecommerceplatform/crd.yaml"

// with returns a spec with the required fields and some more.
func with(fields string) string {
	return `{frontend: {image: frontend}, backend: {image: backend}, ` + fields + `}`
}

func TestEcommercePlatformDefaults(t *testing.T) {
	crd.Load(t, file).TestDefaults(t, "shop", with(`database: {backup: {}}`), map[string]any{
		"environment": "development",
		"frontend":    map[string]any{"image": "frontend", "replicas": int64(1)},
		"backend":     map[string]any{"image": "backend", "replicas": int64(1)},
		"database":    map[string]any{"type": "postgresql", "backup": map[string]any{"schedule": "0 2 * * *", "retention": "30d"}},
		"cache":       map[string]any{"enabled": true},
		"monitoring":  map[string]any{"enabled": true},
	})
}

func TestEcommercePlatformAdmission(t *testing.T) {
	const label = "metadata.name must be a DNS-1035 label"
	destination := `destination: {type: s3, bucket: dumps, credentialsSecret: bucket}`
	tests := crd.Cases{
		{"the least", "shop", `{frontend: {image: frontend}, backend: {image: backend}}`, "", ""},
		{"the most", strings.Repeat("a", 34), `{environment: production, frontend: {image: frontend, replicas: 100}, backend: {image: backend, replicas: 100}, ` +
			`database: {type: postgresql, version: "18", storage: 500Gi, replicas: 5, backup: {enabled: true, schedule: "@daily", retention: 8w, ` +
			destination + `}}, cache: {enabled: false}, monitoring: {enabled: false}, ` +
			`ingress: {host: shop.example.com, className: nginx, tlsSecret: shop-tls}}`, "", ""},
		{"mysql", "shop", with(`database: {type: mysql, version: "8.4.3", replicas: 1}`), "", ""},
		{"no frontend", "shop", `{backend: {image: backend}}`, "spec.frontend", "Required value"},
		{"no backend", "shop", `{frontend: {image: frontend}}`, "spec.backend", "Required value"},
		{"no pods", "shop", `{frontend: {image: frontend, replicas: 0}, backend: {image: backend}}`, "spec.frontend.replicas", "greater than or equal to 1"},
		{"an image with a space", "shop", `{frontend: {image: a b}, backend: {image: backend}}`, "spec.frontend.image", ": must be an image reference"},
		{"a port and a user", "shop", `{frontend: {image: nginx, port: 80}, backend: {image: backend, port: 65535, securityContext: {runAsUser: 1000}}}`, "", ""},
		{"a port out of range", "shop", `{frontend: {image: nginx, port: 65536}, backend: {image: backend}}`, "spec.frontend.port", "less than or equal to 65535"},
		{"another environment", "shop", with(`environment: test`), "spec.environment", "Unsupported value"},
		{"another database", "shop", with(`database: {type: oracle}`), "spec.database.type", "Unsupported value"},
		{"a version that PostgreSQL does not have", "shop", with(`database: {version: "11"}`), "spec.database.version", "12 to 18"},
		{"a version of a mysql for a postgresql", "shop", with(`database: {version: "8.4"}`), "spec.database.version", "12 to 18"},
		{"a version that is no tag", "shop", with(`database: {type: mysql, version: "8.4; id"}`), "spec.database.version", "must be a version of MySQL"},
		{"a version of PostgreSQL for a mysql", "shop", with(`database: {type: mysql, version: "17"}`), "spec.database.version", "must be a version of MySQL, 5.7, 8 or 9, such as 8.4"},
		{"backups without a destination", "shop", with(`database: {backup: {enabled: true, required: true, serviceAccountName: backups}}`), "", ""},
		{"an account elsewhere", "shop", with(`database: {backup: {serviceAccountName: other/backups}}`), "spec.database.backup.serviceAccountName", "must be the name of a ServiceAccount"},
		{"no backups in production", "shop", with(`environment: production, database: {backup: {enabled: false}}`), "", ""},
		{"resources", "shop", with(`database: {resources: {requests: {cpu: 1}}}, cache: {resources: {limits: {memory: 1Gi}}}`), "", ""},
		{"several servers of a mysql", "shop", with(`database: {type: mysql, replicas: 3}`), "spec.database.replicas", "must be 1 for a mysql"},
		{"too many servers", "shop", with(`database: {replicas: 6}`), "spec.database.replicas", "less than or equal to 5"},
		{"storage without a unit", "shop", with(`database: {storage: "10"}`), "spec.database.storage", "must be a size in Gi"},
		{"a retention without a unit", "shop", with(`database: {backup: {retention: "30"}}`), "spec.database.backup.retention", "must be a number of hours, days or weeks"},
		{
			"a destination without a bucket", "shop", with(`database: {backup: {destination: {type: s3, credentialsSecret: bucket}}}`),
			"spec.database.backup.destination.bucket", "Required value",
		},
		{"no host", "shop", with(`ingress: {className: nginx}`), "spec.ingress.host", "Required value"},
		{"a host with a path", "shop", with(`ingress: {host: shop.example.com/admin}`), "spec.ingress.host", "must be a DNS name in lower case"},
		{"a host with upper-case letters", "shop", with(`ingress: {host: Shop.example.com}`), "spec.ingress.host", "must be a DNS name in lower case"},
		{"a name too long", strings.Repeat("a", 35), with(`environment: staging`), "metadata", label},
		{"a name with a dot", "shop.example", with(`environment: staging`), "metadata", label},
	}
	crd.Load(t, file).TestAdmission(t, tests)
}

func TestEcommercePlatformColumns(t *testing.T) {
	crd.Load(t, file).TestColumns(t, "shop", with(`environment: staging`), map[string]any{
		"phase": "Running", "endpoints": map[string]any{"frontend": "https://shop.example.com"},
		"conditions": []any{map[string]any{"type": "BackupConfigured", "status": "False", "reason": "NoDestination"}},
	}, map[string]any{"Name": "shop", "Environment": "staging", "Phase": "Running", "Frontend": "https://shop.example.com", "Backups": "NoDestination"})
}

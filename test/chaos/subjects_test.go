// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chaos

// A subject is an object of a kind and its steps. Its name is web.
type subject struct {
	// before are objects that exist before the object, such as sources of values.
	before string
	object string
	// change is a JSON merge patch of the object.
	change string
	// drift are the changes of children that the operator has to correct.
	drift []drift
	// claims are the names of claims that need a volume.
	claims []string
	// release is set if the object has a Helm release.
	release bool
	// audits is the number of audit records that a run leaves.
	audits int
}

// drift is a JSON merge patch of a child. An empty patch deletes the child.
type drift struct {
	apiVersion, kind, name string
	patch                  string
}

var subjects = map[string]subject{
	"DemoApp": {
		before: `
apiVersion: v1
kind: ConfigMap
metadata: {name: more}
data: {values.yaml: "podLabels: {team: web}"}
---
apiVersion: v1
kind: Secret
metadata: {name: private}
stringData: {values.yaml: "extraEnv: [{name: GREETER, value: only-some-may-know}]"}
`,
		object: `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: web}
spec:
  apiKey: key-of-an-app
  ingress: {host: NAMESPACE.example.com, className: nginx}
  valuesFrom: [{kind: ConfigMap, name: more}, {kind: Secret, name: private}]
`,
		change:  `{"spec": {"message": "changed", "replicaCount": 2}}`,
		drift:   []drift{{"v1", "ConfigMap", "web", `{"data": {"index.html": "theirs"}}`}, {"v1", "Service", "web", ""}},
		release: true, audits: 1,
	},
	"DemoAppCluster": {
		object: `
apiVersion: demo.example.com/v1alpha1
kind: DemoAppCluster
metadata: {name: web}
spec: {template: {spec: {apiKey: key-of-an-app}}}
`,
		change: `{"spec": {"template": {"spec": {"message": "changed"}}}}`,
		drift:  []drift{{"demo.example.com/v1alpha1", "DemoApp", "web-node-0", ""}},
		audits: 3,
	},
	"Memcached": {
		object: `
apiVersion: cache.my.domain/v1
kind: Memcached
metadata: {name: web}
spec: {replicaCount: 1}
`,
		change:  `{"spec": {"replicaCount": 2}}`,
		drift:   []drift{{"apps/v1", "Deployment", "web-memcached", `{"spec": {"replicas": 3}}`}},
		release: true,
	},
	"Deputy": {
		before: `
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: deployer}]
`,
		object: `
apiVersion: chaos.example.com/v1
kind: Deputy
metadata: {name: web}
spec: {replicaCount: 1}
`,
		change:  `{"spec": {"replicaCount": 2}}`,
		drift:   []drift{{"apps/v1", "Deployment", "web-memcached", ""}},
		release: true,
	},
	"Website": {
		object: `
apiVersion: webapp.example.com/v1
kind: Website
metadata: {name: web}
spec: {html: hello}
`,
		change: `{"spec": {"html": "changed", "replicas": 2}}`,
		drift:  []drift{{"v1", "ConfigMap", "web", `{"data": {"index.html": "theirs"}}`}, {"apps/v1", "Deployment", "web", ""}},
	},
	"WebApp": {
		object: `
apiVersion: example.com/v1
kind: WebApp
metadata: {name: web}
spec: {replicas: 1, image: "nginxinc/nginx-unprivileged:1.27-alpine"}
`,
		change: `{"spec": {"replicas": 2, "port": 9090}}`,
		drift:  []drift{{"v1", "Service", "web", `{"spec": {"ports": [{"name": "theirs", "port": 1}]}}`}},
	},
	"PostgreSQL": {
		object: `
apiVersion: database.example.com/v1
kind: PostgreSQL
metadata: {name: web}
spec: {version: "17", storage: 1Gi}
`,
		change: `{"spec": {"resources": {"limits": {"memory": "512Mi"}}}}`,
		drift:  []drift{{"v1", "ConfigMap", "web-scripts", ""}, {"v1", "Service", "web-read", ""}},
		claims: []string{"data-web-0"},
	},
	"AppConfig": {
		object: `
apiVersion: config.example.com/v1
kind: AppConfig
metadata: {name: web}
spec: {application: shop, environment: prod, values: {level: info}, config: {LEVEL: "{{ .Values.level | upper }}"}}
`,
		change: `{"spec": {"values": {"level": "debug"}}}`,
		drift:  []drift{{"v1", "ConfigMap", "shop-config", `{"data": {"LEVEL": "theirs"}}`}},
	},
	"Backup": {
		before: `
apiVersion: v1
kind: Secret
metadata: {name: credentials}
stringData: {username: app, password: replace-me, AWS_ACCESS_KEY_ID: replace-me, AWS_SECRET_ACCESS_KEY: replace-me}
`,
		object: `
apiVersion: backup.example.com/v1
kind: Backup
metadata: {name: web}
spec:
  source: {type: postgresql, connection: {host: db, database: shop, credentialsSecret: credentials}}
  destination: {type: s3, bucket: backups, prefix: shop, credentialsSecret: credentials}
  schedule: "0 0 29 2 *"
`,
		change: `{"spec": {"retention": "7d"}}`,
		drift:  []drift{{"batch/v1", "CronJob", "web-cronjob", `{"spec": {"suspend": true}}`}},
	},
	"AppStack": {
		object: `
apiVersion: app.example.com/v1
kind: AppStack
metadata: {name: web}
spec:
  database: {version: "17", storage: 1Gi}
  backend: {image: "nginxinc/nginx-unprivileged:1.27-alpine", replicas: 1, port: 8080}
  frontend: {image: "nginxinc/nginx-unprivileged:1.27-alpine", replicas: 1, port: 8080}
`,
		change: `{"spec": {"frontend": {"replicas": 2}}}`,
		drift:  []drift{{"apps/v1", "Deployment", "web-backend", ""}},
		claims: []string{"data-web-db-0"},
	},
	"EcommercePlatform": {
		object: `
apiVersion: platform.example.com/v1
kind: EcommercePlatform
metadata: {name: web}
spec:
  environment: development
  frontend: {image: "nginxinc/nginx-unprivileged:1.27-alpine", replicas: 1}
  backend: {image: "nginxinc/nginx-unprivileged:1.27-alpine", replicas: 1}
  database: {type: postgresql, version: "17", storage: 1Gi}
  monitoring: {enabled: false}
  ingress: {host: shop.NAMESPACE.example.com}
`,
		change: `{"spec": {"frontend": {"replicas": 2}}}`,
		drift:  []drift{{"apps/v1", "Deployment", "web-backend", ""}},
		claims: []string{"data-web-db-0"},
	},
	"MemcachedBackup": {
		object: `
apiVersion: cache.my.domain/v1
kind: MemcachedBackup
metadata: {name: web}
spec: {size: 1}
`,
		change: `{"spec": {"size": 2}}`,
		drift:  []drift{{"apps/v1", "Deployment", "web", `{"spec": {"replicas": 3}}`}},
	},
}

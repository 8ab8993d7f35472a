// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// watchesChart has three objects, none of which has a controller in the cluster that would add to the cost.
var watchesChart = map[string]string{ //nolint:gosec // The Secret of the chart has no credential.
	"Chart.yaml":  "apiVersion: v2\nname: small\nversion: 1.0.0\n",
	"values.yaml": "message: first\n",
	"templates/secret.yaml": `apiVersion: v1
kind: Secret
metadata:
  name: {{ .Release.Name }}
data:
  key: {{ .Values.message | b64enc }}
`,
	"templates/configmap.yaml": `apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
data:
  message: {{ .Values.message | quote }}
`,
	"templates/service.yaml": `apiVersion: v1
kind: Service
metadata:
  name: {{ .Release.Name }}
spec:
  selector: {app: {{ .Release.Name }}}
  ports: [{port: 80}]
`,
}

// watchesCRD and watchesAccess are what the kind of a number needs; %[1]s is the group and %[2]s the plural name.
const (
	watchesCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[1]s}
spec:
  group: %[1]s
  scope: Namespaced
  names: {kind: %[3]s, plural: %[2]s, singular: %[4]s, listKind: %[3]sList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
---
`
	watchesAccess = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: bench}
rules:
- {apiGroups: [%[1]s], resources: ["*"], verbs: [list, watch, patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: bench}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: bench}
subjects:
- {kind: ServiceAccount, name: demoapp-controller, namespace: %[2]s}
`
)

// deploy writes the chart and watches.yaml, and applies what the operator needs. There is no CRD of DemoApps.
func (b *watchesBench) deploy(ctx context.Context) error {
	var crds, entries strings.Builder
	chart := filepath.Join(b.dir, "chart")
	for i := range b.kinds {
		kind := b.kind(i)
		fmt.Fprintf(&crds, watchesCRD, watchesGroup, b.resource(i).Resource, kind, strings.ToLower(kind))
		fmt.Fprintf(&entries, "- {group: %s, version: v1, kind: %s, chart: %q}\n", watchesGroup, kind, chart)
	}
	files := map[string]string{
		"crds.yaml": crds.String(), "watches.yaml": entries.String(),
		"access.yaml": fmt.Sprintf(watchesAccess, watchesGroup, operatorNamespace),
	}
	for name, content := range watchesChart {
		files[filepath.Join("chart", name)] = content
	}
	for name, content := range files {
		path := filepath.Join(b.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	if err := b.cluster.InstallCRDs(ctx, filepath.Join(b.dir, "crds.yaml")); err != nil {
		return err
	}
	deploy := filepath.Join(b.options.root, "artifacts", "deploy")
	for _, file := range []string{filepath.Join(deploy, "00-namespace.yaml"), filepath.Join(deploy, "10-rbac.yaml"), filepath.Join(b.dir, "access.yaml")} {
		if err := b.cluster.ApplyFiles(ctx, "", file); err != nil {
			return err
		}
	}
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	kubeconfig := filepath.Join(b.dir, "kubeconfig")
	b.args = []string{
		"--kubeconfig=" + kubeconfig, fmt.Sprintf("--workers=%d", b.options.workers), "--resync-period=24h",
		"--watches-file=" + filepath.Join(b.dir, "watches.yaml"),
	}
	return b.cluster.WriteServiceAccountKubeconfig(ctx, operatorNamespace, "demoapp-controller", kubeconfig)
}

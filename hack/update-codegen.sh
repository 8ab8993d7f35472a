#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Generates:
#
# - from the types in pkg/apis: clients, CustomResourceDefinitions and docs/api.md
# - from the commented rules: the variants of the RBAC, the roles of users and the tables of docs/security.md
# - from artifacts: artifacts/install.yaml, the copies in the Helm chart, its table of values, the ConfigMap for Argo CD
# - from the code of the operator: docs/flags.md, docs/metrics.md and artifacts/monitoring/metrics.json
#
# hack/tools/go.mod pins the generators of others. "make generate" calls this script, and "make verify" calls it in a
# copy of the tree.

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=github.com/example/demoapp-controller
boilerplate="$PWD/hack/boilerplate.go.txt"

# kube_codegen.sh installs the generators into GOBIN. A folder of the repository
# keeps them between runs, and leaves the user's GOBIN alone.
export GOBIN="${CODEGEN_BIN:-$PWD/bin/codegen}"
mkdir -p "$GOBIN"

codegen=$(go -C hack/tools list -m -f '{{.Dir}}' k8s.io/code-generator)
if [[ -z "$codegen" ]]; then
  go -C hack/tools mod download k8s.io/code-generator
  codegen=$(go -C hack/tools list -m -f '{{.Dir}}' k8s.io/code-generator)
fi
# shellcheck source=/dev/null
source "$codegen/kube_codegen.sh"

# An empty folder leaves no files of types that no longer exist.
rm -rf pkg/generated
mkdir -p pkg/generated/{applyconfiguration,clientset,informers,listers,openapi}

kube::codegen::gen_helpers --boilerplate "$boilerplate" pkg/apis
kube::codegen::gen_register --boilerplate "$boilerplate" pkg/apis
# The report lists the API rules that apimachinery's own types break. A further line,
# from a type of this repository, is an error.
kube::codegen::gen_openapi --boilerplate "$boilerplate" \
  --extra-pkgs k8s.io/apimachinery/pkg/util/intstr \
  --output-dir pkg/generated/openapi \
  --output-pkg "$module/pkg/generated/openapi" \
  --output-model-name-file zz_generated.model_name.go \
  --report-filename hack/openapi-violations.list \
  pkg/apis
kube::codegen::gen_client --boilerplate "$boilerplate" \
  --with-watch \
  --with-applyconfig \
  --applyconfig-openapi-schema <(go run ./hack/models-schema) \
  --output-dir pkg/generated \
  --output-pkg "$module/pkg/generated" \
  pkg/apis
# kube_codegen.sh names only the packages with clients. The apply configurations need
# those of the types that they inline as well.
"$GOBIN/applyconfiguration-gen" --go-header-file "$boilerplate" \
  --openapi-schema <(go run ./hack/models-schema) \
  --output-dir pkg/generated/applyconfiguration \
  --output-pkg "$module/pkg/generated/applyconfiguration" \
  $(go list -f '{{if .Imports}}{{.ImportPath}}{{end}}' ./pkg/apis/...)

# The CRDs of demo.example.com are the product. Those of other groups are opted in, each
# from a folder of its own, beside the RBAC and the example that are written by hand.
crds=$(mktemp -d)
trap 'rm -rf "$crds"' EXIT
go tool -modfile=hack/tools/go.mod controller-gen crd \
  paths=./pkg/apis/... output:crd:dir="$crds"
# The generator adds a pattern to quantities. The rule of ResourceList says in words what a quantity is, and the API server
# checks rules only if no pattern fails.
sed -i '/^ *pattern: \^(\\+|-)?((/d' "$crds"/*.yaml
for crd in "$crds"/*.yaml; do
  case "$(basename "$crd")" in
    demo.example.com_*) cp "$crd" artifacts/crds/ ;;
    *)
      kind=$(awk '$1 == "singular:" { print $2; exit }' "$crd")
      mkdir -p "artifacts/kinds/$kind"
      cp "$crd" "artifacts/kinds/$kind/crd.yaml"
      ;;
  esac
done

go tool -modfile=hack/tools/go.mod crd-ref-docs --source-path=./pkg/apis \
  --config=hack/api-docs/config.yaml --templates-dir=hack/api-docs \
  --renderer=markdown --output-path=docs/api.md --log-level=ERROR

# The variants of the RBAC, the roles of users and the table of docs/security.md.
go run ./hack/rbac

# artifacts/install.yaml, the copies in the Helm chart, and its table of values.
go run ./hack/manifests

flags=$(go run ./hack/flags-docs)
echo "$flags" >docs/flags.md

configmap=$(go run ./hack/argocd)
echo "$configmap" >artifacts/argocd/argocd-cm.yaml

# The reference of the metrics: the table of docs/metrics.md, and the same as data.
go run ./hack/metrics-docs

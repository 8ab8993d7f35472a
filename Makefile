# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# The targets need Go, git and make. Tools and the control plane are built from source;
# the go.mod files below hack pin their versions.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The image that "make image" builds.
IMAGE ?= demoapp-controller:dev
# The name of the control plane that "make up" starts.
CLUSTER ?= demoapp
# Further arguments of "go test", for example: make test-unit ARGS='-run TestDecide ./pkg/helm'.
ARGS ?= ./...

BINARY := bin/demoapp-controller
LINTER := bin/golangci-lint
# The race detector needs a C compiler.
RACE := $(if $(shell command -v $$(go env CC)),-race)
# The tests that measure memory, of which the race detector needs more, and their packages.
BOUNDED := Limits|Memory|Cheap|^Fuzz
BOUNDED_PACKAGES = $(addprefix ./,$(sort $(dir $(shell \
	grep -rlE '^func (Fuzz|Test[A-Za-z]*(Limits|Memory|Cheap))' --include='*_test.go' pkg))))
# The other modules with Go code.
MODULES := $(patsubst %/go.mod,%,$(wildcard hack/*/go.mod test/*/go.mod))
LOCALCLUSTER := go -C hack/localcluster run .
# Runs a command on a control plane that ends with the command. Tests count requests in the audit log.
CLUSTER_EXEC := bin/localcluster exec --audit --

# A KUBECONFIG of the environment may name a cluster in use. The demo uses only a
# KUBECONFIG from make's command line.
ifeq ($(origin KUBECONFIG),command line)
DEMO_FLAGS := --kubeconfig=$(abspath $(KUBECONFIG))
endif

##@ Use

.PHONY: help
help: ## Show this help.
	@awk 'BEGIN { FS = ":.*## "; print "Usage: make TARGET" } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Play the tour on a new local control plane, or on that of KUBECONFIG=FILE.
	@go run ./hack/demo $(DEMO_FLAGS)

.PHONY: up
up: ## Start a local control plane and print how to use it.
	@$(LOCALCLUSTER) up --name $(CLUSTER)

.PHONY: down
down: ## Stop the local control plane.
	@$(LOCALCLUSTER) down --name $(CLUSTER)

##@ Deploy

# These targets change a cluster, so they take no default: KUBECONFIG must be given, by the environment or on the command
# line. IMAGE is the image of "make deploy", and RUN_FLAGS are further flags of "make run".
KUBECTL ?= kubectl
RUN_FLAGS ?=
KUBECTL_GIVEN = $(KUBECTL) --kubeconfig=$(or $(KUBECONFIG),$(error set KUBECONFIG to the kubeconfig file of a cluster))

.PHONY: install
install: ## Install the CRDs on the cluster of KUBECONFIG.
	$(KUBECTL_GIVEN) apply --kustomize artifacts/crds

.PHONY: uninstall
uninstall: ## Remove the CRDs. Refuses while there are DemoApps, whose releases nothing would remove.
	@crds=$$($(KUBECTL_GIVEN) get --ignore-not-found --output=name --kustomize artifacts/crds); \
	found=$$([[ -z "$$crds" ]] || $(KUBECTL_GIVEN) get demoapps,demoappclusters --all-namespaces --output=name); \
	if [[ -n "$$found" ]]; then \
		echo "uninstall: delete these first, while the operator runs:" $$found >&2; exit 1; \
	fi
	$(KUBECTL_GIVEN) delete --ignore-not-found --kustomize artifacts/crds

.PHONY: run
run: build ## Run the operator of this tree on this machine. It waits for the lease while deployed replicas work.
	$(KUBECTL_GIVEN) apply --filename artifacts/deploy/00-namespace.yaml
	exec $(BINARY) --kubeconfig=$(KUBECONFIG) --leader-elect-resource-namespace=demoapp-system \
		--metrics-bind-address=127.0.0.1:8080 --health-probe-bind-address=127.0.0.1:8081 $(RUN_FLAGS)

.PHONY: deploy
deploy: ## Deploy the operator with its CRDs, as two replicas of IMAGE.
	$(KUBECTL_GIVEN) kustomize artifacts/deploy | sed 's|image: demoapp-controller:dev$$|image: $(IMAGE)|' \
		| $(KUBECTL_GIVEN) apply --filename -

.PHONY: undeploy
undeploy: ## Remove the operator. The CRDs, the DemoApps and their releases stay; nothing reconciles them.
	$(KUBECTL_GIVEN) delete --ignore-not-found --filename artifacts/deploy/

##@ Build

.PHONY: build
build: ## Build the operator into bin/.
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(BINARY) ./cmd/demoapp-controller

.PHONY: image
image: ## Build a container image into bin/image.tar, without a container engine.
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags '-s -w' -o bin/image/demoapp-controller ./cmd/demoapp-controller
	go -C hack/tools run ./image --binary $(CURDIR)/bin/image/demoapp-controller --tag $(IMAGE) --output $(CURDIR)/bin/image.tar

.PHONY: generate
generate: ## Write the generated code, the CRDs and docs/api.md.
	hack/update-codegen.sh

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin

##@ Test

.PHONY: test
test: test-unit test-cluster ## Run all tests.

.PHONY: test-unit
test-unit: ## Run the unit tests. They need no cluster.
	go test $(RACE) $(ARGS)
	$(if $(RACE),go test -run '$(BOUNDED)' $(BOUNDED_PACKAGES))
	for module in $(MODULES); do go -C $$module test ./...; done

# "localcluster exec" starts one control plane, which the test packages use one after the other. With -p 2, the next
# package is compiled while one runs. test/conformance comes last, since it leaves its many namespaces behind.
CLUSTER_TEST := $(CLUSTER_EXEC) go test $(RACE) -timeout 30m -p 2
CLUSTER_PACKAGES = $(filter-out %/test/conformance,$(shell go list ./test/...)) ./test/conformance

.PHONY: test-cluster
test-cluster: localcluster ## Run the integration and the conformance tests on one real API server.
	$(CLUSTER_TEST) -tags integration,conformance $(CLUSTER_PACKAGES)

.PHONY: test-integration
test-integration: localcluster ## Run the operator on a real API server, which is started for that.
	$(CLUSTER_TEST) -tags integration ./test/...

.PHONY: test-conformance
test-conformance: localcluster ## Compare the Helm engine with the stock Helm SDK, on a real API server.
	$(CLUSTER_TEST) -tags conformance ./test/conformance

.PHONY: localcluster
localcluster:
	go -C hack/localcluster build -o $(CURDIR)/bin/localcluster .

.PHONY: bench
bench: ## Measure the operator on a local control plane and write docs/benchmarks.md.
	go -C test/bench run . -root ../..

.PHONY: verify
verify: verify-codegen verify-modules verify-format verify-headers verify-vet ## Check generated code, modules, format, headers and vet. Changes nothing.

.PHONY: verify-codegen verify-modules verify-format verify-headers
verify-codegen verify-modules verify-format verify-headers: verify-%:
	hack/verify-$*.sh

.PHONY: verify-vet
verify-vet:
	go vet -tags integration,conformance ./...
	for module in $(MODULES); do go -C $$module vet ./...; done

.PHONY: lint
lint: $(LINTER) ## Run golangci-lint on all modules.
	$(LINTER) run ./...
	for module in $(MODULES); do \
		(cd $$module && $(CURDIR)/$(LINTER) run --config $(CURDIR)/.golangci.yaml ./...); \
	done

.PHONY: format
format: $(LINTER) ## Format the Go files of all modules.
	$(LINTER) fmt

$(LINTER): hack/tools/lint/go.mod
	go -C hack/tools/lint build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

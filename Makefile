# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# The targets need Go, git and make. Tools and the control plane are built from source;
# the go.mod files below hack pin their versions.

SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# The version of a release, such as v1.2.3. Without it, the version is that of the commit.
VERSION ?=
# The image that "make image" and "make docker-build" build, its platforms, and where "make image" pushes it.
IMAGE ?= demoapp-controller:dev
IMG ?= $(IMAGE)
PLATFORMS ?= linux/amd64 linux/arm64
PUSH ?=
# The container engine of "make docker-build" and "make docker-push".
CONTAINER_TOOL ?= docker
# The platforms of the binaries of a release, and the repository of its image.
RELEASE_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# The platforms of the kubectl plugin of a release.
PLUGIN_PLATFORMS ?= $(RELEASE_PLATFORMS) windows/amd64 windows/arm64
REPOSITORY ?= $(if $(PUSH),$(patsubst %:$(VERSION),%,$(PUSH)),ghcr.io/example/demoapp-controller)
# The private key that signs a release. Without a key, "make sign" signs with the identity of the caller.
SIGN_KEY ?=
export SIGN_KEY
# The name of the control plane that "make up" starts.
CLUSTER ?= demoapp
# The minor version of Kubernetes of control planes, for "make up" and for tests: 1.30, 1.33 or another one of
# hack/localcluster/kubernetes. The default is the version of hack/localcluster/go.mod, 1.37.
K8S ?=
ifneq ($(K8S),)
export LOCALCLUSTER_KUBERNETES := $(K8S)
endif
# Further arguments of "go test", for example: make test-unit ARGS='-run TestDecide ./pkg/helm'.
ARGS ?= ./cmd/... ./examples/... ./pkg/...

BINARY := bin/demoapp-controller
LINTER := bin/golangci-lint
COSIGN := bin/cosign
VULNCHECK := bin/govulncheck
# The race detector needs a C compiler. The linker of Go suffices, and takes a third of the time of the compiler's, which go would
# choose because Helm imports the package plugin.
RACE := $(if $(shell command -v $$(go env CC)),-race -ldflags=-linkmode=internal)
RACE_ENV := $(if $(RACE),CGO_ENABLED=1 GOFLAGS='$(filter-out -trimpath,$(GOFLAGS))')
# Tests without the race detector, and their packages. For the tests of bounds and the fuzz tests, it would need more memory than
# they allow. TestFaults and TestCrashes repeat each operation hundreds of times, and other tests run the operations with it.
UNRACED := Limits|Memory|Cheap|^Fuzz|^Test(Faults|Crashes)$$
UNRACED_PACKAGES = $(addprefix ./,$(sort $(dir $(shell \
	grep -rlE '^func (Fuzz|Test[A-Za-z]*(Limits|Memory|Cheap)|Test(Faults|Crashes).t )' --include='*_test.go' pkg))))
# Programs, tests, the control plane and what vet and the linter read are compiled in the same way, so that they share what is
# compiled. Only the race detector needs a compilation of its own, with C.
export CGO_ENABLED := 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
# The other modules with Go code. hack/tools has only pinned tools.
MODULES := $(filter-out hack/tools,$(patsubst %/go.mod,%,$(wildcard hack/*/go.mod test/*/go.mod)))
LOCALCLUSTER := go -C hack/localcluster run .

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

# With NODE=real, the node has the image of the operator, for "kubectl apply -f artifacts/install.yaml".
NODE ?= simulated
NODE_IMAGE := bin/image.tar
.PHONY: up
up: $(if $(filter real,$(NODE)),node-image) ## Start a local control plane and print how to use it. K8S=1.33 is another version; NODE=real runs containers, as root on Linux.
	@$(LOCALCLUSTER) up --name $(CLUSTER) --node $(NODE) $(if $(filter real,$(NODE)),--image $(CURDIR)/$(NODE_IMAGE))

# The image of the operator for this machine alone.
.PHONY: node-image
node-image:
	@$(MAKE) --no-print-directory image IMAGE=demoapp-controller:dev PLATFORMS=linux/$$(go env GOARCH) PUSH=

.PHONY: down
down: ## Stop the local control plane.
	@$(LOCALCLUSTER) down --name $(CLUSTER)

##@ Deploy

# These targets change the cluster of KUBECONFIG, or of the file that kubectl takes without it. They print the file with each
# command. IMG, or else IMAGE, is the image of "make deploy". It has no default, because nodes cannot pull an image that was
# only built. RUN_FLAGS are further flags of "make run".
KUBECTL ?= kubectl
RUN_FLAGS ?=
IMG_GIVEN = $(if $(filter-out file,$(origin IMG) $(origin IMAGE)),$(IMG),$(error set IMG to an image that the nodes can pull))
KUBECONFIG_FILE = $(or $(KUBECONFIG),$(HOME)/.kube/config)
CLUSTER_KUBECTL = $(KUBECTL) --kubeconfig=$(KUBECONFIG_FILE)

.PHONY: install
install: ## Install the CRDs on the cluster of KUBECONFIG, by default ~/.kube/config.
	$(CLUSTER_KUBECTL) apply --kustomize artifacts/crds
	$(CLUSTER_KUBECTL) wait --for=condition=Established --timeout=30s --filename artifacts/crds/

.PHONY: uninstall
uninstall: ## Remove the CRDs. Refuses while there are DemoApps, whose releases nothing would remove.
	@crds=$$($(CLUSTER_KUBECTL) get --ignore-not-found --output=name --kustomize artifacts/crds); \
	found=$$([[ -z "$$crds" ]] || $(CLUSTER_KUBECTL) get demoapps,demoappclusters --all-namespaces --output=name); \
	if [[ -n "$$found" ]]; then \
		echo "uninstall: delete these first, while the operator runs:" $$found >&2; exit 1; \
	fi
	$(CLUSTER_KUBECTL) delete --ignore-not-found --kustomize artifacts/crds

.PHONY: run
run: build ## Run the operator of this tree on this machine. It waits for the lease while deployed replicas work.
	$(CLUSTER_KUBECTL) apply --filename artifacts/deploy/00-namespace.yaml
	exec $(BINARY) --kubeconfig=$(KUBECONFIG_FILE) --leader-elect-resource-namespace=demoapp-system \
		--metrics-bind-address=127.0.0.1:8080 --health-probe-bind-address=127.0.0.1:8081 $(RUN_FLAGS)

.PHONY: deploy
deploy: ## Deploy the operator with its CRDs, as two replicas of the image IMG=.
	@[[ '$(IMG_GIVEN)' =~ ^[A-Za-z0-9][A-Za-z0-9._:/@-]*$$ ]] || { echo 'deploy: IMG is no reference of an image: $(IMG)' >&2; exit 1; }
	$(CLUSTER_KUBECTL) kustomize artifacts/deploy | sed 's|image: demoapp-controller:dev$$|image: $(IMG_GIVEN)|' \
		| $(CLUSTER_KUBECTL) apply --filename -

.PHONY: undeploy
undeploy: ## Remove the operator. The CRDs, the DemoApps, their releases and audit records stay; nothing reconciles them.
	$(CLUSTER_KUBECTL) delete --ignore-not-found --filename artifacts/deploy/ --selector='demo.example.com/audit!=true'

##@ Build

# All builds of the operator have these flags, those of the Dockerfile included. The same commit gives the same binary.
LDFLAGS = -s -w$(if $(VERSION), -X github.com/example/demoapp-controller/pkg/operator.releaseVersion=$(VERSION))
GO_BUILD = go build -buildvcs=auto -ldflags '$(LDFLAGS)'

.PHONY: build
build: ## Build the operator into bin/.
	$(GO_BUILD) -o $(BINARY) ./cmd/demoapp-controller

.PHONY: plugin
plugin: ## Build the kubectl plugin into bin/, and the link by which kubectl completes its arguments.
	$(GO_BUILD) -o bin/kubectl-demoapp ./cmd/kubectl-demoapp
	ln -sf kubectl-demoapp bin/kubectl_complete-demoapp

# The binary of one platform, such as bin/linux_arm64/demoapp-controller.
bin/%/demoapp-controller: FORCE
	GOOS=$(firstword $(subst _, ,$*)) GOARCH=$(lastword $(subst _, ,$*)) $(GO_BUILD) -o $@ ./cmd/demoapp-controller

bin/%/kubectl-demoapp: FORCE
	GOOS=$(firstword $(subst _, ,$*)) GOARCH=$(lastword $(subst _, ,$*)) $(GO_BUILD) -o $@ ./cmd/kubectl-demoapp

.PHONY: FORCE
FORCE:

binaries = $(foreach platform,$(1),bin/$(subst /,_,$(platform))/demoapp-controller)
plugins = $(foreach platform,$(1),bin/$(subst /,_,$(platform))/kubectl-demoapp)

# Pushes the OCI layout in bin/image/oci/.
PUSH_IMAGE = go -C hack/image run . push -tag '$(PUSH)' -image $(CURDIR)/bin/image

.PHONY: image
image: $(call binaries,$(PLATFORMS)) ## Build the image of all PLATFORMS into bin/image/, without a container engine, and push it to PUSH=.
	go -C hack/image run . pack -version '$(VERSION)' -tag '$(IMAGE)' -output $(CURDIR)/bin/image $(abspath $^)
	$(if $(PUSH),$(PUSH_IMAGE))
	cp bin/image/docker-$(firstword $(notdir $(filter %/$(shell go env GOARCH),$(PLATFORMS)) $(PLATFORMS))).tar bin/image.tar

# What the Dockerfile gets from outside: the version of Go, and the commit for the labels and the times of files. An empty
# VERSION would replace the default of the Dockerfile.
DOCKER_ARGS = GO_VERSION=$(patsubst go%,%,$(shell go env GOVERSION)) $(addprefix VERSION=,$(VERSION)) \
	REVISION=$(shell git rev-parse HEAD)$(if $(shell git status --porcelain),+dirty) \
	CREATED=$(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ) \
	SOURCE_DATE_EPOCH=$(shell git log -1 --format=%ct)

.PHONY: docker-build
docker-build: ## Build the image IMG= with the Dockerfile and CONTAINER_TOOL=, for example podman.
	$(CONTAINER_TOOL) build --tag $(IMG) $(addprefix --build-arg ,$(DOCKER_ARGS)) .

.PHONY: docker-push
docker-push: ## Push the image IMG= with CONTAINER_TOOL=.
	$(CONTAINER_TOOL) push $(IMG)

.PHONY: release
release: release-version $(call binaries,$(RELEASE_PLATFORMS)) $(call plugins,$(PLUGIN_PLATFORMS)) ## Build the release VERSION= into bin/release/, push its image to PUSH=, sign with SIGN_KEY=.
	$(MAKE) --no-print-directory image IMAGE=$(REPOSITORY):$(VERSION) PUSH=
	go -C hack/image run . release -version '$(VERSION)' -repository $(REPOSITORY) -image $(CURDIR)/bin/image \
		-manifest $(CURDIR)/artifacts/install.yaml -chart $(CURDIR)/artifacts/chart/demoapp-controller \
		-license $(CURDIR)/LICENSE $(addprefix -plugin=,$(abspath $(filter %/kubectl-demoapp,$^))) \
		-output $(CURDIR)/bin/release $(abspath $(filter %/demoapp-controller,$^))
	$(if $(PUSH),$(MAKE) --no-print-directory release-push)
	$(if $(SIGN_KEY),$(MAKE) --no-print-directory sign)

# A release is of a commit. This is checked before the long build.
.PHONY: release-version
release-version:
	@[[ -n '$(VERSION)' ]] || { echo 'release: VERSION is empty; set it, for example: make release VERSION=v1.2.3' >&2; exit 1; }
	@[[ -z "$$(git status --porcelain)" ]] || { echo 'release: there are uncommitted changes; commit them' >&2; exit 1; }

.PHONY: release-push
release-push: ## Push the image of the release VERSION= in bin/release/ to PUSH=.
	rm -rf bin/image/oci && mkdir -p bin/image/oci
	tar -xf bin/release/demoapp-controller-$(VERSION)-image.tar -C bin/image/oci
	@grep -q "$$(cut -d @ -f 2 bin/release/image-digest.txt)" bin/image/oci/index.json || \
		{ echo 'release-push: the image differs from bin/release/image-digest.txt; run make release again' >&2; exit 1; }
	$(PUSH_IMAGE)

.PHONY: sign
sign: $(COSIGN) ## Sign the release in bin/release/, and its image if PUSH= is set.
	hack/sign.sh $(COSIGN) bin/release $(if $(PUSH),$$(<bin/release/image-digest.txt))

$(COSIGN): hack/tools/cosign/go.mod
	go -C hack/tools/cosign build -o $(CURDIR)/$@ github.com/sigstore/cosign/v3/cmd/cosign

.PHONY: generate
generate: ## Write generated code, CRDs, RBAC, install.yaml, copies in the chart, and references in docs.
	hack/update-codegen.sh

# The names of kubebuilder and of the tutorials.
.PHONY: manifests test-integration
manifests: generate ## The same as generate.
test-integration: test-cluster ## The same as test-cluster.

.PHONY: rename
rename: ## Give a fork its names: MODULE=, NAME=, GROUP=, NAMESPACE=. See docs/adding-a-kind.md.
	go run ./hack/rename -module '$(MODULE)' -name '$(NAME)' -group '$(GROUP)' -namespace '$(NAMESPACE)'
	gofmt -w cmd examples hack pkg test
	hack/update-codegen.sh

.PHONY: clean
clean: ## Remove what was built.
	rm -rf bin

##@ Test

.PHONY: test
test: ## Run the unit tests, then each promise once on a real API server. 20 to 25 minutes on two cores.
	@echo 'The unit tests (about 9 minutes on two cores), then the operator on real API servers (about 14).'
	@echo 'The first run compiles everything, and a Kubernetes control plane (about 20 minutes more).'
	@echo 'Lines with # say how many packages are done, and about how many minutes each step still takes.'
	@$(MAKE) --no-print-directory test-unit test-cluster

.PHONY: test-all
test-all: test-programs test-node-programs ## Run all tests: also databases, older versions, releases, pages, a renamed clone, race detector. More than two hours.
	@$(MAKE) --no-print-directory verify-monitoring test-unit test-cluster-all test-chaos test-databases test-node test-release test-rename FAULTS=1

# Says which programs the tests beyond "make test" need and which Debian packages have them, if one is missing.
.PHONY: test-programs
test-programs:
	@hack/test-programs.sh

# verify-vet vets everything once, with the tags of all tests. The timeout ends a test that hangs; the default of 10 minutes
# would also end packages on a busy machine.
TEST_FLAGS := -vet=off -timeout 40m
GO_TEST := go test $(TEST_FLAGS)
# Go test, with messages about its progress: the name of the step, flags of the build, then flags of the test and packages.
PROGRESS := bin/progress
go-test = $(PROGRESS) -name '$(1)' $(2) -- $(TEST_FLAGS) $(3)

$(PROGRESS): $(wildcard hack/progress/*.go)
	go build -o $@ ./hack/progress

# The race detector is for the code of programs. What charts, manifests, pages and tools are tested with has no concurrency to
# speak of. The cache of tests does not notice changes outside of a module, so tests of other modules always run. The alerts and
# dashboards are files that a compiled Prometheus reads, which "make verify" does.
.PHONY: test-unit
test-unit: $(PROGRESS) ## Run the unit tests. They need no cluster.
	$(if $(RACE),$(RACE_ENV) GORACE=atexit_sleep_ms=0) $(call go-test,unit tests,$(RACE),$(if $(RACE),-skip '$(UNRACED)') $(ARGS))
	$(if $(RACE),$(call go-test,bounds and fuzz tests,,-run '$(UNRACED)' $(UNRACED_PACKAGES)))
	$(call go-test,tests of tools,,./hack/... ./test/...)
	for module in $(filter-out test/monitoring,$(MODULES)); do go -C $$module test $(TEST_FLAGS) -count=1 ./...; done

# Each package starts a control plane of its own, and most of its time goes by in waits, so several run side by side. The
# longest come first. The operator runs without the race detector, which the unit tests have.
LONGEST := $(addprefix test/,conformance integration integration/lifecycle integration/handover integration/variants upgrade install)
CLUSTER_PACKAGES = $(addprefix ./,$(LONGEST) $(filter-out $(LONGEST) test/chaos test/docs test/integration/fleet test/ui test/upstream test/monitoring/% test/scripts/%,$(sort $(patsubst %/,%,$(dir \
	$(shell grep -rlE '^//go:build (integration|conformance)' --include='*_test.go' test))))))
WITH_BINARY := DEMOAPP_CONTROLLER_BINARY=$(CURDIR)/$(BINARY)
CLUSTER_TEST := $(WITH_BINARY) $(GO_TEST) -p 4 -tags integration,conformance
cluster-test = $(WITH_BINARY) $(call go-test,$(1),-tags integration$(comma)conformance,-p 4 -short $(2))
comma := ,

# The faults that are quick to play, with the same seed each time. They have the machine for themselves.
QUICK_FAULTS := TestEveryRequestFails|TestKilledAfterEachRequest|TestGeneratedChanges|TestStaleFirstList

.PHONY: test-cluster
test-cluster: build $(PROGRESS) ## Run the operator on real API servers, and compare the Helm engine with the stock Helm SDK.
	$(call cluster-test,tests on API servers,$(CLUSTER_PACKAGES))
	$(call cluster-test,faults,-run '$(QUICK_FAULTS)' ./test/chaos)

# The operator has the race detector here, so the tests build it. The commands of the plugin beside 1,000 DemoApps are timed, so
# nothing runs beside them. The test of test/upstream builds the operators that releases are taken over from, and runs them. The
# dashboards with a real Prometheus, and the page in a real browser, are in modules of their own.
.PHONY: test-cluster-all
test-cluster-all: test-programs
	UPGRADE_DEMOAPPS=200 $(RACE_ENV) $(GO_TEST) $(RACE) -timeout 90m -p 2 -tags integration,conformance $(CLUSTER_PACKAGES) ./test/docs
	$(GO_TEST) -timeout 30m -tags integration ./test/integration/fleet
	$(GO_TEST) -timeout 60m -tags integration ./test/upstream
	go -C test/monitoring test $(TEST_FLAGS) -tags integration ./integration
	go -C test/ui test $(TEST_FLAGS) -count=1 -tags integration .

# The faults have the machine for themselves.
SOAK ?= 30m
SEED ?= 1
.PHONY: test-chaos
test-chaos: build ## Break requests, watches, processes and surroundings of the operator, and change many objects for SOAK=30m.
	$(WITH_BINARY) $(GO_TEST) -timeout 240m -tags integration ./test/chaos -seed=$(SEED)
	$(WITH_BINARY) $(GO_TEST) -timeout 120m -tags integration -run TestSoak ./test/chaos -soak=$(SOAK) -seed=$(SEED)

# The node builds its programs and images at its first start, with messages.
.PHONY: test-node
test-node: test-node-programs node-image ## Play the operator in pods, on a node that runs containers. Needs root and Linux. FAULTS=1 also breaks databases and the node.
	$(GO_TEST) -count=1 -v -tags node ./test/node $(if $(FAULTS),-faults)

# The plays of each change: one of each kind of workload.
NODE_PLAYS := TestDemoAppServesItsMessage|TestWebAppRunsStockImage|TestQueryPostgreSQL

.PHONY: test-node-short
test-node-short: test-node-programs node-image ## Play a DemoApp, a WebApp and a PostgreSQL on a node that runs containers. Needs root and Linux.
	$(GO_TEST) -count=1 -v -tags node -run '^($(NODE_PLAYS))$$' ./test/node

.PHONY: test-node-programs
test-node-programs:
	@hack/test-programs.sh node

.PHONY: test-databases
test-databases: test-programs ## Run the scripts of the kinds PostgreSQL and Backup with real servers.
	go -C test/scripts test $(TEST_FLAGS) -tags integration ./...

# What depends on the version of the API server. The last test is about objects that break a newer rule of their CRD.
VERSION_PACKAGES := ./test/integration $(addprefix ./test/,crd integration/admission integration/plugin integration/watches)

.PHONY: test-version
test-version: build $(PROGRESS) ## Run the tests of kinds, CRDs, admission and the plugin on another version of Kubernetes, such as K8S=1.30.
	$(call cluster-test,tests on Kubernetes $(K8S),$(VERSION_PACKAGES))
	$(call cluster-test,newer rules on Kubernetes $(K8S),-run TestTightened ./test/integration/variants)

.PHONY: test-conformance
test-conformance: ## Compare the Helm engine with the stock Helm SDK, on a real API server.
	$(CLUSTER_TEST) ./test/conformance

.PHONY: test-release
test-release: $(COSIGN) $(VULNCHECK) ## Make, push, render, sign and scan a release with the real tools.
	COSIGN=$(CURDIR)/$(COSIGN) VULNCHECK=$(CURDIR)/$(VULNCHECK) go -C hack/image test -vet=off -count=1 -tags integration .

.PHONY: test-rename
test-rename: ## Rename a clone of the last commit, build it, and run its unit tests.
	$(GO_TEST) -count=1 -timeout 2h -tags integration -run TestRenamedClone ./hack/rename

.PHONY: test-upgrade
test-upgrade: build ## Upgrade the operator from each version of test/upgrade/milestones.txt, with 200 DemoApps each.
	UPGRADE_DEMOAPPS=200 $(CLUSTER_TEST) -v ./test/upgrade

.PHONY: bench
bench: build ## Measure the operator on local control planes and write the figures of docs/benchmarks.md.
	go -C test/bench run . -operator=$(CURDIR)/$(BINARY) -out=$(CURDIR)/docs/benchmarks.md

.PHONY: dashboards
dashboards: ## Play the tour with a Prometheus and draw the dashboards into docs/images.
	go -C test/monitoring run ./dashboards -root ../..

.PHONY: pictures
pictures: ## Draw the pictures of kubectl demoapp ui into docs/images, with a headless Chromium.
	UI_PICTURES=$(CURDIR)/docs/images go -C test/ui test -vet=off -count=1 -tags integration -run TestViews .

.PHONY: verify
verify: verify-codegen verify-modules verify-format verify-headers verify-vet verify-monitoring ## Check generated code, modules, format, headers, vet, alerts and dashboards. Changes nothing.

.PHONY: verify-codegen verify-modules verify-format verify-headers
verify-codegen verify-modules verify-format verify-headers: verify-%:
	hack/verify-$*.sh

.PHONY: verify-vet
verify-vet:
	go vet -tags integration,conformance,node ./...
	for module in $(MODULES); do go -C $$module vet -tags integration ./...; done

.PHONY: verify-monitoring
verify-monitoring:
	go -C test/monitoring test $(TEST_FLAGS) -count=1 ./...

.PHONY: lint
lint: $(LINTER) ## Check the words of comments and pages, and run golangci-lint on all modules.
	go run ./hack/words
	$(LINTER) run ./...
	for module in $(MODULES); do \
		(cd $$module && $(CURDIR)/$(LINTER) run --config $(CURDIR)/.golangci.yaml ./...); \
	done

.PHONY: format
format: $(LINTER) ## Format the Go files of all modules.
	$(LINTER) fmt

$(LINTER): hack/tools/lint/go.mod
	go -C hack/tools/lint build -o $(CURDIR)/$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: gosec
gosec: $(LINTER) ## Report insecure code in all modules. "make lint" does so as well.
	$(LINTER) run --enable-only gosec ./...
	for module in $(MODULES); do \
		(cd $$module && $(CURDIR)/$(LINTER) run --config $(CURDIR)/.golangci.yaml --enable-only gosec ./...); \
	done

.PHONY: vulncheck
vulncheck: $(VULNCHECK) ## Report known vulnerabilities in the code that is called. GOVULNDB= names another database.
	hack/vulncheck.sh $(VULNCHECK) . $(MODULES)

$(VULNCHECK): hack/tools/vulncheck/go.mod
	go -C hack/tools/vulncheck build -o $(CURDIR)/$@ golang.org/x/vuln/cmd/govulncheck

# syntax=docker/dockerfile:1
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# The image of "make image", built with a container engine:
#
#   make docker-build docker-push IMG=registry.example.com/demoapp-controller:v1.2.3
#
# The context has to be a clone with its .git directory, from which the go command stamps the commit.

ARG GO_VERSION=1.26

# The build runs on the platform of the engine. Go compiles for the platform of the image.
FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
WORKDIR /src
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=bind,source=go.mod,target=go.mod \
    --mount=type=bind,source=go.sum,target=go.sum \
    go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    mkdir /out && go -C hack/image run . certificates >/out/ca-certificates.crt
ARG TARGETOS TARGETARCH VERSION
RUN --mount=type=cache,target=/go/pkg/mod \
    --mount=type=cache,target=/root/.cache/go-build \
    GOOS=$TARGETOS GOARCH=$TARGETARCH make build VERSION=$VERSION BINARY=/out/demoapp-controller

FROM scratch
COPY --from=build --chmod=0444 /out/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build --chmod=0555 /out/demoapp-controller /demoapp-controller
WORKDIR /
USER 65532:65532
ENTRYPOINT ["/demoapp-controller"]
ARG VERSION=devel REVISION CREATED
LABEL org.opencontainers.image.title="demoapp-controller" \
      org.opencontainers.image.description="Kubernetes operator that installs Helm charts for custom resources" \
      org.opencontainers.image.source="https://github.com/example/demoapp-controller" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}"

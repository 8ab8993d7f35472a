#!/usr/bin/env bash
# Copyright The DemoApp Controller Authors.
# SPDX-License-Identifier: Apache-2.0

# Signs a release with cosign: checksums.txt, image-digest.txt and, if the image was pushed, the image itself.
#
#   hack/sign.sh COSIGN DIRECTORY [IMAGE@DIGEST]
#
# SIGN_KEY names a file that "cosign generate-key-pair" wrote, and COSIGN_PASSWORD holds its password. Signatures with a key
# use no service. Without SIGN_KEY, cosign signs with the identity of the caller (OpenID Connect), as in a workflow of GitHub.
# A signature of a file is a Sigstore bundle: FILE.sigstore.json.

set -euo pipefail

cosign=$1
directory=$2
image=${3:-}

flags=(--yes)
if [[ -n "${SIGN_KEY:-}" ]]; then
  services=$(mktemp -d)
  trap 'rm -rf "$services"' EXIT
  # Configurations without services: no transparency log, no timestamps.
  "$cosign" signing-config create --out "$services/signing-config.json"
  "$cosign" trusted-root create --out "$services/trusted-root.json"
  flags+=(--key "$SIGN_KEY" --signing-config "$services/signing-config.json" --trusted-root "$services/trusted-root.json")
fi

for file in checksums.txt image-digest.txt; do
  "$cosign" sign-blob "${flags[@]}" --bundle "$directory/$file.sigstore.json" "$directory/$file"
done
if [[ -n "$image" ]]; then
  "$cosign" sign "${flags[@]}" "$image"
fi

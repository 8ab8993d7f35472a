// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	releasev1 "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/example/demoapp-controller/pkg/helm/manifest"
	"github.com/example/demoapp-controller/pkg/helm/record"
)

// documents returns the documents of a manifest. It parses each manifest only once, because
// Helm's actions build the same manifests several times. The result is shared and must not
// be changed.
func (o *operation) documents(text string) ([]manifest.Document, error) {
	if documents, ok := o.parsed[text]; ok {
		return documents, nil
	}
	documents, err := manifest.Parse(text)
	if err != nil {
		return nil, err
	}
	if o.parsed == nil {
		o.parsed = map[string][]manifest.Document{}
	}
	o.parsed[text] = documents
	return documents, nil
}

// manifestHash returns the HMAC-SHA256, in hex, of a release's manifest without the values
// of Secrets. The key is in the record. A hash without a key could reveal secrets, because
// charts put checksums of Secrets into annotations of pods.
func (o *operation) manifestHash(rls *releasev1.Release) string {
	if rls.Labels[record.SaltLabel] == "" {
		return "" // The next revision gets a key.
	}
	documents, _ := o.documents(rls.Manifest) // It was parsed without an error before.
	return manifest.Hash(rls.Labels[record.SaltLabel], documents)
}

// owners returns the owner references for the objects of the release; nil for none.
func (o *operation) owners() *manifest.Owners {
	if o.owner == nil {
		return nil
	}
	return &manifest.Owners{Owner: *o.owner, Namespace: o.release.Namespace, Namespaced: o.engine.mapper.namespaced}
}

// ownManifest adds the owner to the manifest of a revision before it is recorded. With
// renewed, the owner replaces earlier ones.
func (o *operation) ownManifest(next *releasev1.Release, renewed bool) error {
	owners := o.owners()
	if owners == nil {
		return nil
	}
	owners.Renewed = renewed
	documents, err := o.documents(next.Manifest)
	if err != nil {
		return err
	}
	next.Manifest, documents, err = owners.Write(next.Manifest, documents)
	if err == nil {
		o.parsed[next.Manifest] = documents
	}
	return err
}

// ownObject adds the owner to an object, as in the manifest.
func (o *operation) ownObject(info *resource.Info) error {
	object, err := content(info)
	if err != nil {
		return err
	}
	o.markOwner(object)
	owners := o.owners()
	if owners == nil {
		return nil
	}
	return owners.Own(object)
}

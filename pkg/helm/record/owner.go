// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The labels on a release record that name the release's owner. Helm copies them to the
// revisions that other clients make.
const (
	// OwnerLabel is the owner's UID.
	OwnerLabel = "engine.demo.example.com/owner"
	// OwnerKindLabel is the owner's kind and a digest of its group, kind and name:
	// "<kind>.<digest>". The digest stays the same when the owner is created again.
	OwnerKindLabel = "engine.demo.example.com/owner-kind"
	// OwnerGenerationLabel is the owner's generation, for which the revision was made.
	OwnerGenerationLabel = "engine.demo.example.com/owner-generation"
)

// Released is the value of OwnerLabel on the newest record of a release that its owner let go. It
// is no UID, so the release belongs to no owner before one adopts it. If the owner was deleted with
// the propagation policy Orphan, OwnerKindLabel stays, and the next owner of that kind and name needs
// no adoption. Only clients that may write Secrets can set it.
const Released = "released"

// maxLabelKind is the largest part of a kind's name in OwnerKindLabel, because a label's
// value has at most 63 characters.
const maxLabelKind = 40

// Owner identifies the owner of a release.
type Owner struct {
	UID types.UID
	// Kind is the owner's kind, at most 40 characters of it.
	Kind string
	// Identity is a digest of group, kind and name.
	Identity string
	// Generation is the owner's generation; 0 if it is not known.
	Generation int64
}

// OwnerOf returns the identity of the referenced owner, without its generation; nil for none.
func OwnerOf(reference *metav1.OwnerReference) Owner {
	if reference == nil {
		return Owner{}
	}
	group := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).Group
	sum := sha256.Sum256([]byte(group + "/" + reference.Kind + "/" + reference.Name))
	return Owner{
		UID: reference.UID, Kind: reference.Kind[:min(len(reference.Kind), maxLabelKind)], Identity: hex.EncodeToString(sum[:8]),
	}
}

// recordedOwner returns the owner that the labels of a record name; zero for none.
func recordedOwner(labels map[string]string) Owner {
	kind := labels[OwnerKindLabel]
	end := max(strings.LastIndexByte(kind, '.'), 0)
	generation, _ := strconv.ParseInt(labels[OwnerGenerationLabel], 10, 64) // Older records have none.
	return Owner{
		UID: types.UID(labels[OwnerLabel]), Kind: kind[:end], Identity: strings.TrimPrefix(kind[end:], "."), Generation: generation,
	}
}

// Label puts the owner into the labels of a record.
func (o Owner) Label(labels map[string]string) {
	delete(labels, OwnerLabel)
	delete(labels, OwnerKindLabel)
	delete(labels, OwnerGenerationLabel)
	if o.UID != "" {
		labels[OwnerLabel], labels[OwnerKindLabel] = string(o.UID), o.Kind+"."+o.Identity
	}
	if o.UID != "" && o.Generation > 0 {
		labels[OwnerGenerationLabel] = strconv.FormatInt(o.Generation, 10)
	}
}

// Succeeds reports whether the owner is the same as other, or was created later under the same
// name. The caller of the engine has confirmed the owner with the API server, so an owner with
// another UID is an earlier owner.
func (o Owner) Succeeds(other Owner) bool {
	return o.UID != "" && (o.UID == other.UID || o.Identity == other.Identity)
}

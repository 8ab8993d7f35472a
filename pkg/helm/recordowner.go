// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Labels on a release record that say which object the engine keeps the release for.
// Helm carries them over to the revisions that others make of the release.
const (
	// OwnerLabel is the owner's UID.
	OwnerLabel = "engine.demo.example.com/owner"
	// OwnerKindLabel is the owner's kind, and a digest of group, kind and name, which
	// an object that is created again under the same name has as well:
	// "<kind>.<digest>".
	OwnerKindLabel = "engine.demo.example.com/owner-kind"
)

// maxLabelKind is how much of a kind's name the OwnerKindLabel holds: a label's value
// has at most 63 characters.
const maxLabelKind = 40

// Owner is the object that a release is kept for.
type Owner struct {
	UID types.UID
	// Kind is the owner's kind, at most 40 characters of it.
	Kind string
	// Identity stands for group, kind and name.
	Identity string
}

func ownerOf(reference *metav1.OwnerReference) Owner {
	if reference == nil {
		return Owner{}
	}
	group := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind).Group
	sum := sha256.Sum256([]byte(group + "/" + reference.Kind + "/" + reference.Name))
	return Owner{
		UID: reference.UID, Kind: reference.Kind[:min(len(reference.Kind), maxLabelKind)], Identity: hex.EncodeToString(sum[:8]),
	}
}

// recordedOwner is the owner that the labels of a record name; zero for none.
func recordedOwner(labels map[string]string) Owner {
	kind := labels[OwnerKindLabel]
	end := max(strings.LastIndexByte(kind, '.'), 0)
	return Owner{UID: types.UID(labels[OwnerLabel]), Kind: kind[:end], Identity: strings.TrimPrefix(kind[end:], ".")}
}

// label puts the owner into the labels of a record.
func (o Owner) label(labels map[string]string) {
	delete(labels, OwnerLabel)
	delete(labels, OwnerKindLabel)
	if o.UID != "" {
		labels[OwnerLabel], labels[OwnerKindLabel] = string(o.UID), o.Kind+"."+o.Identity
	}
}

// succeeds reports whether the owner is the other one, or was created in its place:
// objects of one kind and name exist one after the other only.
func (o Owner) succeeds(other Owner) bool {
	return o.UID != "" && (o.UID == other.UID || o.Identity == other.Identity)
}

// owns reports whether the release that the record is the newest of is the owner's:
// by the record's labels; else, without any, because the engine made the revision,
// because the caller remembers to have deployed the release, or because it is to
// be adopted. The release of another owner cannot be adopted.
func (o Owner) owns(record *Record, remembered, adopt bool) bool {
	if record.Owner.UID != "" {
		return o.succeeds(record.Owner)
	}
	return record.Own || remembered || adopt
}

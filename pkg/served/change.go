// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package served

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/example/demoapp-controller/pkg/metacache"
)

// Annotations of a cached CRD or API service, which stand for larger parts of its metadata.
const (
	labeledDigest = "labeled"
	statusDigest  = "status"
)

// reduce keeps the fields that distinguish a change of the served kinds from other changes of a CRD
// or of an API service. Clients write labels and annotations. The managed fields of the status change
// with each write of the status.
func reduce(whole *metav1.PartialObjectMetadata) *metav1.PartialObjectMetadata {
	reduced := metacache.Identity(whole)
	reduced.Generation = whole.Generation
	var ofStatus []metav1.ManagedFieldsEntry
	for _, entry := range whole.ManagedFields {
		if entry.Subresource == "status" {
			ofStatus = append(ofStatus, entry)
		}
	}
	reduced.Annotations = map[string]string{
		labeledDigest: digest(whole.Labels, whole.Annotations, whole.Finalizers, whole.OwnerReferences),
		statusDigest:  digest(ofStatus),
	}
	return reduced
}

func digest(parts ...any) string {
	sum := sha256.New()
	_ = json.NewEncoder(sum).Encode(parts) // Metadata can always be encoded, and a hash takes all bytes.
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// mayServeOthers reports whether an update may change the served kinds. It does not if labels,
// annotations, finalizers or owners explain the update: another client may write them each second.
// An update of the same generation without such a change is one of the status.
func mayServeOthers(was, is *metav1.PartialObjectMetadata) bool {
	if was.ResourceVersion == is.ResourceVersion {
		return false
	}
	explained := was.UID == is.UID && was.Generation == is.Generation &&
		was.Annotations[labeledDigest] != is.Annotations[labeledDigest] && was.Annotations[statusDigest] == is.Annotations[statusDigest]
	return !explained
}

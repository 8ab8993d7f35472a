// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package custom

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/rawjson"
)

const (
	// maxStatusNodes and maxStatusDepth limit a status that is decoded. The largest status that the
	// controller writes has an inventory of 512 KiB, with about 33,000 nodes.
	maxStatusNodes = 60_000
	maxStatusDepth = 100
	// statusRoom is the memory that the lists of any status may take.
	statusRoom = 8 << 10
)

// Status is the part of a custom resource's status that its controller writes.
type Status struct {
	releasev1alpha1.ReleaseStatus

	// Manifest is status.deployedRelease.manifest; empty if it is not written.
	Manifest string
	// Keyed says that the conditions of the kind are a map by type, so that each field
	// manager applies its own. Otherwise the conditions of other clients are applied with ours,
	// because the API server would remove them.
	Keyed bool
}

// read reads a written status. It stays empty if the written one is not of this form, or if it is
// larger than the controller writes it.
func (s *Status) read(written []byte) {
	if len(written) == 0 || !isReadable(written) {
		return
	}
	read := releasev1alpha1.ReleaseStatus{}
	if utiljson.Unmarshal(written, &read) != nil || overhead(&read) > statusRoom+3*len(written) {
		return
	}
	s.ReleaseStatus = read
	if s.DeployedRelease == nil {
		return
	}
	if s.DeployedRelease.Revision == 0 {
		s.DeployedRelease = nil
		return
	}
	var upstream struct {
		DeployedRelease struct {
			Manifest string `json:"manifest"`
		} `json:"deployedRelease"`
	}
	if utiljson.Unmarshal(written, &upstream) == nil {
		s.Manifest = upstream.DeployedRelease.Manifest
	}
}

func isReadable(written []byte) bool {
	size := rawjson.Measure(written)
	return size.Nodes <= maxStatusNodes && size.Depth <= maxStatusDepth
}

// overhead is the memory of the lists of a status, without their texts. A list of empty objects,
// which only other clients write, takes 50 times the memory of its text.
func overhead(s *releasev1alpha1.ReleaseStatus) int {
	size := 0
	lists := []any{s.Conditions, s.Inventory, s.Revisions, s.History}
	for _, entry := range s.History {
		lists = append(lists, entry.Changed)
	}
	for _, list := range lists {
		value := reflect.ValueOf(list)
		size += value.Cap() * int(value.Type().Elem().Size())
	}
	return size
}

// MarshalJSON implements json.Marshaler. It encodes the fields to apply.
func (s Status) MarshalJSON() ([]byte, error) {
	applied := s.ReleaseStatus
	if s.Keyed {
		applied.Conditions = slices.DeleteFunc(slices.Clone(applied.Conditions), func(c metav1.Condition) bool { return !slices.Contains(OwnConditions, c.Type) })
	}
	if s.Manifest == "" || s.DeployedRelease == nil {
		return json.Marshal(applied)
	}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&applied)
	if err != nil {
		return nil, fmt.Errorf("encode the status: %w", err)
	}
	if err := unstructured.SetNestedField(fields, s.Manifest, "deployedRelease", "manifest"); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

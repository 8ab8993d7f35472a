// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// driftOf returns a field of a child that is restored when others change it: a text of a ConfigMap, or else a label of
// another child.
func (b *kindsBench) driftOf(s sample) (field driftedField, kind string, err error) {
	err = errors.New("no child has a field to change")
	for _, w := range s.writes {
		var child struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Data              map[string]any `json:"data"`
		}
		if w.isStatus() || json.Unmarshal(w.body, &child) != nil || !metav1.IsControlledBy(&child.ObjectMeta, &metav1.ObjectMeta{UID: s.uid}) {
			continue
		}
		path := driftPath(child.Kind, child.Labels, child.Data)
		if path == nil || err == nil && child.Kind != "ConfigMap" {
			continue
		}
		group, parseErr := schema.ParseGroupVersion(child.APIVersion)
		if parseErr != nil {
			return field, "", parseErr
		}
		segments := strings.Split(strings.TrimSuffix(w.path, "/"+child.Name), "/")
		name := child.Name
		field = driftedField{
			resource: group.WithResource(segments[len(segments)-1]), path: path,
			name: func(owner string) string { return strings.ReplaceAll(name, sampleName, owner) },
		}
		kind, err = child.Kind, nil
		if kind == "ConfigMap" {
			return field, kind, nil
		}
	}
	return field, kind, err
}

// driftPath returns the path of a text in a child; nil for a child without one. The label by which the operator watches
// its children stays, since a child without the label seems to be gone.
func driftPath(kind string, labels map[string]string, data map[string]any) []string {
	var keys []string
	for key := range data {
		keys = append(keys, key)
	}
	if kind == "ConfigMap" && len(keys) > 0 {
		return []string{"data", slices.Min(keys)}
	}
	keys = nil
	for key := range labels {
		if !strings.Contains(key, "/") {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return []string{"metadata", "labels", slices.Min(keys)}
}

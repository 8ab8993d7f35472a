// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// gates are the names of the gates that hold a change, by its reason.
var gates = map[string]string{
	releasev1alpha1.ReasonOutsideWindow:      "upgrade window",
	releasev1alpha1.ReasonRolloutQueued:      "rollout",
	releasev1alpha1.ReasonRolloutHalted:      "rollout",
	releasev1alpha1.ReasonReleaseBusy:        "other client",
	releasev1alpha1.ReasonTakeoverHeld:       "consent",
	releasev1alpha1.ReasonLicenseUnavailable: "license server",
	releasev1alpha1.ReasonLicenseDenied:      "license server",
	ReasonUnseen:                             "operator",
}

// WaitsFor returns a function that says in a few words why an object waits: another object, as
// KIND/NAME, or the gate that holds a change. The text is empty if the object is ready or names no
// such object or gate. The function reads nothing but the summary, so that lists stay cheap;
// [Cluster.Why] follows an object to the cause.
func (c *Cluster) WaitsFor(ctx context.Context) (func(Summary) string, error) {
	own, err := c.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	kinds, err := c.kindsByName(own)
	if err != nil {
		return nil, err
	}
	return facts{kinds: kinds}.waitsFor, nil
}

func (f facts) waitsFor(s Summary) string {
	if s.Ready == metav1.ConditionTrue && !s.Deleting || s.Suspended {
		return ""
	}
	if gate, held := gates[s.Reason]; held {
		return gate
	}
	node := &Node{Reference: s.Reference}
	if refused, ok := refusalOf(node, s.Message); ok && refused.next != nil {
		return refused.next.String()
	}
	for _, mentioned := range f.mentions(node, s.Message) {
		return mentioned.String()
	}
	return ""
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/helm"
)

// heldByTakeover says how the status of an object shows that the takeover of its release waits for consent, for metrics.
func heldByTakeover() kind.Gate {
	return kind.Gate{
		Name: "takeover", Condition: releasev1alpha1.ConditionUpgradeHeld, Status: metav1.ConditionTrue,
		Reasons: []string{releasev1alpha1.ReasonTakeoverHeld},
	}
}

// holdTakeover reports whether an action ended because a takeover needs consent, and reports the hold.
// Otherwise it ends a hold that an earlier pass reported.
func (s *subject) holdTakeover(f Facts, action helm.Action, err error) (Blocker, bool) {
	var needed *helm.ConsentError
	if !errors.As(err, &needed) {
		held := meta.FindStatusCondition(s.status.Conditions, releasev1alpha1.ConditionUpgradeHeld)
		if rollsOut(action) && held != nil && held.Reason == releasev1alpha1.ReasonTakeoverHeld {
			s.Conditions().Remove(releasev1alpha1.ConditionUpgradeHeld)
		}
		return Blocker{}, false
	}
	message := f.Desired.Redactor.Text(fmt.Sprintf("The release waits for consent, because %v", needed)) + "; to consent, run: " + consentCommand(f)
	s.Conditions().Set(releasev1alpha1.ConditionUpgradeHeld, metav1.ConditionTrue, releasev1alpha1.ReasonTakeoverHeld, message)
	return Blocker{Reason: releasev1alpha1.ReasonTakeoverHeld, Message: message}, true
}

// consentCommand is the command that consents to the takeover of an object's release.
func consentCommand(f Facts) string {
	object := f.Key.Name
	if owner := f.Desired.Release.Owner; owner != nil {
		object = strings.ToLower(owner.Kind) + "/" + object
	}
	command := "kubectl demoapp retry " + object
	if f.Key.Namespace != "" {
		command += " --namespace=" + f.Key.Namespace
	}
	return command
}

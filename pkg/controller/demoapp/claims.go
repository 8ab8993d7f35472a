// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// byClaim indexes DemoApps by what only one of them may have in a namespace.
const byClaim = "claims"

// claim is something that only one DemoApp of a namespace may have.
type claim struct {
	kind, value string
}

// isExclusive reports whether the operator alone keeps two DemoApps from having the claim. The API server does so for
// node ports, which it allocates atomically, and for nothing else.
func (c claim) isExclusive() bool { return c.kind == hostKind }

// String names the claim in a sentence.
func (c claim) String() string { return c.kind + " " + c.value }

// in is the claim's value in the index.
func (c claim) in(namespace string) string { return namespace + "/" + c.String() }

// desiredClaims are what a spec asks for.
func desiredClaims(spec v1alpha1.DemoAppSpec) []claim {
	var claims []claim
	if port := nodePort(spec); port != 0 {
		claims = append(claims, nodePortClaim(port))
	}
	if spec.Ingress != nil {
		claims = append(claims, hostClaim(spec.Ingress.Host))
	}
	return claims
}

// usedClaims are what the deployed release has, which the spec may no longer ask
// for.
func usedClaims(s v1alpha1.DemoAppStatus) []claim {
	var claims []claim
	if s.NodePort != 0 {
		claims = append(claims, nodePortClaim(int64(s.NodePort)))
	}
	if s.IngressHost != "" {
		claims = append(claims, hostClaim(s.IngressHost))
	}
	return claims
}

// hostKind is the kind of a host's claim.
const hostKind = "host"

func hostClaim(host string) claim { return claim{hostKind, host} }

func nodePortClaim(port int64) claim { return claim{"node port", strconv.FormatInt(port, 10)} }

// claimsOf are what an app asks for or has.
func claimsOf(app *v1alpha1.DemoApp) []claim {
	claims := desiredClaims(app.Spec)
	for _, used := range usedClaims(app.Status) {
		if !slices.Contains(claims, used) {
			claims = append(claims, used)
		}
	}
	return claims
}

// recordClaims writes down what the release has after a success, of which the status
// does not know yet. A repair of what is deployed tells nothing of it while a change
// waits. What the release has of spec.ingress is seen later, see summarizeExposure.
func recordClaims(app *v1alpha1.DemoApp, change release.Change) {
	s := &app.Status
	switch {
	case change.Decision.Action == helm.ActionRollback:
		if last := s.DeployedRelease; last == nil || last.Revision != int64(change.Decision.To) {
			s.NodePort, s.IngressHost, s.ExternalURL = 0, "", "" // Of an older spec, which is not known any more.
		}
	case !change.Desired:
	case nodePort(app.Spec) == 0 && hasNodePort(app.Spec) && keepsService(s.Inventory, change.Deployed.Inventory):
		// The API server leaves a Service that asks for none the port that it has.
	default:
		s.NodePort = int32(nodePort(app.Spec)) //nolint:gosec // It was one before.
	}
}

// keepsService reports whether the Service is the one that it was, and not made anew.
func keepsService(before []releasev1alpha1.InventoryEntry, after []helm.InventoryEntry) bool {
	return slices.ContainsFunc(before, func(was releasev1alpha1.InventoryEntry) bool {
		return was.Kind == "Service" && slices.ContainsFunc(after, func(is helm.InventoryEntry) bool {
			return is.Kind == was.Kind && is.Name == was.Name && is.UID == was.UID
		})
	})
}

func claimIndex(object any) ([]string, error) {
	app, ok := object.(*v1alpha1.DemoApp)
	if !ok {
		return nil, nil
	}
	var values []string
	for _, claim := range claimsOf(app) {
		values = append(values, claim.in(app.Namespace))
	}
	return values, nil
}

// rivals are the other apps that ask for something that this one asks for or
// has.
func (c *Controller) rivals(app *v1alpha1.DemoApp) []cache.ObjectName {
	var rivals []cache.ObjectName
	for _, claim := range claimsOf(app) {
		for _, other := range c.claimants(app, claim) {
			rivals = append(rivals, cache.MetaObjectToName(other))
		}
	}
	return rivals
}

// claimants are the apps beside this one that ask for a claim or have it, the
// oldest first. Their statuses are those that this process wrote last.
func (c *Controller) claimants(app *v1alpha1.DemoApp, claim claim) []*v1alpha1.DemoApp {
	var others []*v1alpha1.DemoApp
	for _, other := range c.Cached().ByIndex(app.Namespace, byClaim, claim.in(app.Namespace)) {
		if newest := c.Newest(other); newest != nil && newest.Name != app.Name {
			others = append(others, newest)
		}
	}
	slices.SortFunc(others, compareAge)
	return others
}

// claimsChanged tells whether a change of an app matters to its rivals.
func claimsChanged(before, after *v1alpha1.DemoApp) controller.Reason {
	if before != nil && after != nil &&
		slices.Equal(desiredClaims(before.Spec), desiredClaims(after.Spec)) &&
		slices.Equal(usedClaims(before.Status), usedClaims(after.Status)) {
		return 0
	}
	return controller.SpecChange
}

// obstacle says why an app cannot have what it asks for, given the others that
// ask for it or have it, the oldest first; nothing when it can. It stalls unless the
// other one is about to give it up.
func obstacle(app *v1alpha1.DemoApp, claim claim, others []*v1alpha1.DemoApp) (message string, stalled bool) {
	for _, other := range others {
		if !slices.Contains(desiredClaims(other.Spec), claim) {
			continue
		}
		uses, mine := slices.Contains(usedClaims(other.Status), claim), slices.Contains(usedClaims(app.Status), claim)
		// Who of two of the same second was seen first is chance, and settled.
		settled := other.CreationTimestamp.Equal(&app.CreationTimestamp) && uses != mine
		switch {
		case settled && mine:
		case compareAge(other, app) < 0:
			return fmt.Sprintf("%s belongs to DemoApp %q, which is older", claim, other.Name), true
		case settled:
			return fmt.Sprintf("%s belongs to DemoApp %q, which has it already", claim, other.Name), true
		}
	}
	for _, other := range others {
		if slices.Contains(usedClaims(other.Status), claim) {
			return fmt.Sprintf("%s is still in use by DemoApp %q", claim, other.Name), slices.Contains(desiredClaims(other.Spec), claim)
		}
	}
	return "", false
}

// isRing reports whether the app that has a host waits, directly or not, for the host of this app: none of them would
// ever get what it asks for.
func (c *Controller) isRing(app *v1alpha1.DemoApp, wanted claim) bool {
	return c.leadsTo(app, app, wanted, map[string]bool{})
}

// leadsTo follows what an app waits for, from holder to holder, until it comes to the
// one that it looks for.
func (c *Controller) leadsTo(goal, waiting *v1alpha1.DemoApp, wanted claim, seen map[string]bool) bool {
	for _, holder := range c.claimants(waiting, wanted) {
		used := usedClaims(holder.Status)
		if holder.DeletionTimestamp != nil || !slices.Contains(used, wanted) || slices.Contains(desiredClaims(holder.Spec), wanted) {
			continue
		}
		if holder.Name == goal.Name {
			return true
		}
		if seen[holder.Name] {
			continue
		}
		seen[holder.Name] = true
		for _, next := range desiredClaims(holder.Spec) {
			if next.isExclusive() && !slices.Contains(used, next) && c.leadsTo(goal, holder, next, seen) {
				return true
			}
		}
	}
	return false
}

// compareAge puts the older of two apps first. Ages are whole seconds; of two
// that are of the same, the order of their names decides.
func compareAge(a, b *v1alpha1.DemoApp) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

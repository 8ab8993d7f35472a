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

// byClaim indexes DemoApps by their claims.
const byClaim = "claims"

// claim is a host or node port. Only one DemoApp of a namespace may have it.
type claim struct {
	kind, value string
}

// isExclusive reports whether only the operator can keep two DemoApps from having the
// claim. That is the case for hosts. The API server allocates node ports atomically.
func (c claim) isExclusive() bool { return c.kind == hostKind }

// String names the claim in messages.
func (c claim) String() string { return c.kind + " " + c.value }

// in is the index value of the claim in a namespace.
func (c claim) in(namespace string) string { return namespace + "/" + c.String() }

// desiredClaims returns the claims that a spec requests.
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

// usedClaims returns the claims of the deployed release, which the spec may no longer
// request.
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

// hostKind is the kind of a claim of a host.
const hostKind = "host"

func hostClaim(host string) claim { return claim{hostKind, host} }

func nodePortClaim(port int64) claim { return claim{"node port", strconv.FormatInt(port, 10)} }

// claimsOf returns the claims that an app requests or uses.
func claimsOf(app *v1alpha1.DemoApp) []claim {
	claims := desiredClaims(app.Spec)
	for _, used := range usedClaims(app.Status) {
		if !slices.Contains(claims, used) {
			claims = append(claims, used)
		}
	}
	return claims
}

// recordClaims records the claims of the release after a success, before its status is
// updated. A repair changes no claims while a change waits. Claims of spec.ingress are
// recorded later, see summarizeExposure.
func recordClaims(app *v1alpha1.DemoApp, change release.Change) {
	s := &app.Status
	switch {
	case change.Decision.Action == helm.ActionRollback:
		if last := s.DeployedRelease; last == nil || last.Revision != int64(change.Decision.To) {
			s.NodePort, s.IngressHost, s.ExternalURL = 0, "", "" // The claims of the older spec are not known.
		}
	case !change.Desired:
	case nodePort(app.Spec) == 0 && hasNodePort(app.Spec) && keepsService(s.Inventory, change.Deployed.Inventory):
		// Without a requested port, the Service keeps the port that it has.
	default:
		s.NodePort = int32(nodePort(app.Spec)) //nolint:gosec // nodePort converts an int32.
	}
}

// keepsService reports whether the Service is still the same object.
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

// rivals returns the other apps that may win or lose a claim when this app changes: those that
// use a claim of this app, and the oldest that requests it. All others are refused before and
// after the change. They learn of another holder by their next pass, so that many apps with
// the same claim do not enqueue each other.
func (c *Controller) rivals(app *v1alpha1.DemoApp) []cache.ObjectName {
	var rivals []cache.ObjectName
	for _, claim := range claimsOf(app) {
		var oldest *v1alpha1.DemoApp
		for _, other := range c.claimants(app, claim) {
			switch {
			case slices.Contains(usedClaims(other.Status), claim):
				rivals = append(rivals, cache.MetaObjectToName(other))
			case oldest == nil || compareAge(other, oldest) < 0:
				oldest = other
			}
		}
		if oldest != nil {
			rivals = append(rivals, cache.MetaObjectToName(oldest))
		}
	}
	return rivals
}

// claimants returns the other apps that request or use a claim. Their statuses are the newest
// that this process wrote.
func (c *Controller) claimants(app *v1alpha1.DemoApp, claim claim) []*v1alpha1.DemoApp {
	var others []*v1alpha1.DemoApp
	for _, other := range c.Cached().ByIndex(app.Namespace, byClaim, claim.in(app.Namespace)) {
		if newest := c.Newest(other); newest != nil && newest.Name != app.Name {
			others = append(others, newest)
		}
	}
	return others
}

// claimsChanged returns the reason to enqueue the rivals of a changed app.
func claimsChanged(before, after *v1alpha1.DemoApp) controller.Reason {
	if before != nil && after != nil &&
		slices.Equal(desiredClaims(before.Spec), desiredClaims(after.Spec)) &&
		slices.Equal(usedClaims(before.Status), usedClaims(after.Status)) {
		return 0
	}
	return controller.SpecChange
}

// obstacle returns why an app cannot have a requested claim, given the other claimants; empty
// if it can. It names the oldest app in the way. stalled is false if that app no longer
// requests the claim.
func obstacle(app *v1alpha1.DemoApp, claim claim, others []*v1alpha1.DemoApp) (message string, stalled bool) {
	mine := slices.Contains(usedClaims(app.Status), claim)
	var preferred, user *v1alpha1.DemoApp
	for _, other := range others {
		uses, requests := slices.Contains(usedClaims(other.Status), claim), slices.Contains(desiredClaims(other.Spec), claim)
		// If two apps have the same age, the one that uses the claim keeps it.
		settled := other.CreationTimestamp.Equal(&app.CreationTimestamp) && uses != mine
		wins := requests && (settled && uses || !settled && compareAge(other, app) < 0)
		if wins && (preferred == nil || compareAge(other, preferred) < 0) {
			preferred = other
		}
		if uses && (user == nil || compareAge(other, user) < 0) {
			user = other
		}
	}
	switch {
	case preferred != nil && compareAge(preferred, app) < 0:
		return fmt.Sprintf("%s belongs to DemoApp %q, which is older", claim, preferred.Name), true
	case preferred != nil:
		return fmt.Sprintf("%s belongs to DemoApp %q, which has it already", claim, preferred.Name), true
	case user != nil:
		return fmt.Sprintf("%s is still in use by DemoApp %q", claim, user.Name), slices.Contains(desiredClaims(user.Spec), claim)
	default:
		return "", false
	}
}

// isRing reports whether the app that uses a host waits, directly or not, for the host of
// this app. None of the apps in such a ring would ever get its host. A ring of more than
// maxRing apps is not found.
func (c *Controller) isRing(app *v1alpha1.DemoApp, desired claim) bool {
	return c.leadsTo(app, app, desired, map[string]bool{})
}

// leadsTo follows the claims that apps wait for, from holder to holder, and reports
// whether it reaches goal.
func (c *Controller) leadsTo(goal, waiting *v1alpha1.DemoApp, desired claim, seen map[string]bool) bool {
	for _, holder := range c.claimants(waiting, desired) {
		used := usedClaims(holder.Status)
		if holder.DeletionTimestamp != nil || !slices.Contains(used, desired) || slices.Contains(desiredClaims(holder.Spec), desired) {
			continue
		}
		if holder.Name == goal.Name {
			return true
		}
		if seen[holder.Name] || len(seen) >= maxRing {
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

// compareAge orders apps by age, the oldest first. Ages are whole seconds. Ties are
// broken by name.
func compareAge(a, b *v1alpha1.DemoApp) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

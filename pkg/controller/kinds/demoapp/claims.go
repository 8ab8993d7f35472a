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
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/claim"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/helm"
)

// claims are the claims of DemoApps to values of one sort. Only one DemoApp of a namespace may have
// a value.
type claims struct {
	claim.Claims[*v1alpha1.DemoApp]
}

var (
	// hosts are exclusive: only the operator can keep two DemoApps from having a host.
	hosts = newClaims("host",
		func(app *v1alpha1.DemoApp) string {
			if app.Spec.Ingress == nil {
				return ""
			}
			return app.Spec.Ingress.Host
		},
		func(app *v1alpha1.DemoApp) string { return app.Status.IngressHost })
	// nodePorts are allocated atomically by the API server.
	nodePorts = newClaims("node port",
		func(app *v1alpha1.DemoApp) string { return portText(nodePort(app.Spec)) },
		func(app *v1alpha1.DemoApp) string { return portText(int64(app.Status.NodePort)) })
	allClaims = []claims{nodePorts, hosts}
)

// newClaims returns claims to values of a name. requested returns the value that a spec requests.
// used returns the value of the deployed release, which the spec may no longer request.
func newClaims(name string, requested, used func(*v1alpha1.DemoApp) string) claims {
	inNamespace := func(valueOf func(*v1alpha1.DemoApp) string) func(*v1alpha1.DemoApp) string {
		return func(app *v1alpha1.DemoApp) string {
			value := valueOf(app)
			if value == "" {
				return ""
			}
			return app.Namespace + "/" + value
		}
	}
	return claims{claim.Claims[*v1alpha1.DemoApp]{
		Name: name, Requested: inNamespace(requested), Held: inNamespace(used), Shown: requested,
	}}
}

// portText returns a port as text; empty for none.
func portText(port int64) string {
	if port == 0 {
		return ""
	}
	return strconv.FormatInt(port, 10)
}

// isExclusive reports whether the claims need reservations.
func (c claims) isExclusive() bool { return c.Name == hosts.Name }

// describe names the value that an app requests, for messages.
func (c claims) describe(app *v1alpha1.DemoApp) string { return c.Name + " " + c.Shown(app) }

// requestedClaims returns the claims for which an app requests a value.
func requestedClaims(app *v1alpha1.DemoApp) []claims {
	return slices.DeleteFunc(slices.Clone(allClaims), func(c claims) bool { return c.Requested(app) == "" })
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

// rivals returns the other apps that may win or lose a claim when this app changes: those that
// use a claim of this app, and the oldest that requests it. Any further app is refused before and
// after the change. They learn of another holder by their next pass, so that many apps with the
// same claim do not enqueue each other.
func (c *Controller) rivals(app *v1alpha1.DemoApp) []cache.ObjectName {
	var rivals []cache.ObjectName
	for _, claims := range allClaims {
		for _, value := range claims.Of(app) {
			var oldest *v1alpha1.DemoApp
			for _, other := range claims.Others(c, app, value) {
				switch {
				case claims.Held(other) == value:
					rivals = append(rivals, cache.MetaObjectToName(other))
				case oldest == nil || compareAge(other, oldest) < 0:
					oldest = other
				}
			}
			if oldest != nil {
				rivals = append(rivals, cache.MetaObjectToName(oldest))
			}
		}
	}
	return rivals
}

// claimsChanged returns the reason to enqueue the rivals of a changed app.
func claimsChanged(before, after *v1alpha1.DemoApp) controller.Reason {
	return hosts.Changed(before, after) | nodePorts.Changed(before, after)
}

// obstacle returns why an app cannot have a requested claim, given the other claimants; empty
// if it can. It names the oldest app that has the claim. stalled is false if that app no longer
// requests the claim.
func (c claims) obstacle(app *v1alpha1.DemoApp, others []*v1alpha1.DemoApp) (message string, stalled bool) {
	value, shown := c.Requested(app), c.describe(app)
	mine := c.Held(app) == value
	var preferred, user *v1alpha1.DemoApp
	for _, other := range others {
		uses, requests := c.Held(other) == value, c.Requested(other) == value
		// If two apps have the same age, the app that uses the claim keeps it.
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
		return fmt.Sprintf("%s belongs to DemoApp %q, which is older", shown, preferred.Name), true
	case preferred != nil:
		return fmt.Sprintf("%s belongs to DemoApp %q, which has it already", shown, preferred.Name), true
	case user != nil:
		return fmt.Sprintf("%s is still in use by DemoApp %q", shown, user.Name), c.Requested(user) == value
	default:
		return "", false
	}
}

// maxRing is the number of apps of the largest ring of hosts that is found.
const maxRing = 32

// isRing reports whether the app that uses a host waits, directly or not, for the host of
// this app. None of the apps in such a ring would ever get its host. A ring of more than
// maxRing apps is not found.
func (c *Controller) isRing(app *v1alpha1.DemoApp) bool {
	return c.leadsTo(app, app, map[string]bool{})
}

// leadsTo follows the hosts that apps wait for, from holder to holder, and reports whether it
// reaches goal.
func (c *Controller) leadsTo(goal, waiting *v1alpha1.DemoApp, seen map[string]bool) bool {
	host := hosts.Requested(waiting)
	for _, holder := range hosts.Others(c, waiting, host) {
		if holder.DeletionTimestamp != nil || hosts.Held(holder) != host || hosts.Requested(holder) == host {
			continue
		}
		if holder.Name == goal.Name {
			return true
		}
		if seen[holder.Name] || len(seen) >= maxRing {
			continue
		}
		seen[holder.Name] = true
		if c.leadsTo(goal, holder, seen) {
			return true
		}
	}
	return false
}

// compareAge orders apps by age, the oldest first. Ages are whole seconds. Ties are
// broken by name.
func compareAge(a, b *v1alpha1.DemoApp) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

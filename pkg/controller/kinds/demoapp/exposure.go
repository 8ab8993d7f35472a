// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm"
)

// absenceGrace is the time for which a capability must be absent before its deployed object is
// deleted. An IngressClass that is replaced, or a version of a kind that is not served for a moment,
// must not delete the routes of apps.
const absenceGrace = 5 * time.Minute

// exposure says which objects of spec.ingress the cluster supports, if that is known.
type exposure struct {
	known, ingress, httpRoute bool
	// ingressDoubt and httpRouteDoubt say why the support is not known for sure: it cannot be
	// observed, or it is an [*absence]. The deployed objects then count as supported.
	ingressDoubt, httpRouteDoubt error
}

// absence is the absence of a capability during absenceGrace.
type absence struct {
	// kept is the kind of the deployed object that stays meanwhile; empty for none.
	kept  string
	until time.Time
}

// Error implements error.
func (a *absence) Error() string {
	return fmt.Sprintf("a change waits until %s, because the absence may be short", a.until.UTC().Format(time.RFC3339))
}

// observeExposure finds out which objects of spec.ingress the cluster supports.
func (c *Controller) observeExposure(p *pass) (exposure, error) {
	spec, found := p.Object.Spec.Ingress, exposure{known: true}
	if spec == nil {
		return exposure{}, nil
	}
	if spec.ClassName != "" {
		has, err := c.capabilities.hasClass(p.Key(), spec.ClassName)
		found.ingress, found.ingressDoubt, err = supports(p, &c.capabilities.classAbsent, "Ingress", has, false, err)
		if err != nil {
			return exposure{}, err
		}
	}
	if spec.Gateway != nil {
		has, gone, err := c.capabilities.hasHTTPRoutes(p.Key())
		found.httpRoute, found.httpRouteDoubt, err = supports(p, &c.capabilities.routesAbsent, "HTTPRoute", has, gone, err)
		if err != nil {
			return exposure{}, err
		}
	}
	return found, nil
}

// supports decides whether the cluster supports a kind of spec.ingress. Deployed objects are kept if
// that cannot be observed, and for absenceGrace after the capability is missed. absent has the time
// since when. If gone, all objects of the kind are deleted without the operator. failure is the error
// of the observation.
func supports(
	p *pass, absent *controller.Memory[time.Time], kind string, has, gone bool, failure error,
) (supported bool, doubt, err error) {
	deployed, recorded := hasDeployed(p.Object, kind), p.Object.Status.DeployedRelease != nil
	switch {
	case failureOf(failure) != nil:
		return deployed, failure, nil
	case failure != nil:
		return false, nil, failure
	case has, gone, recorded && !deployed:
		absent.Forget(p.Key())
		return has, nil, nil
	}
	since, known := absent.Get(p.Key())
	if !known {
		since = p.Now
		absent.Set(p.Key(), since)
	}
	missed := &absence{until: since.Add(absenceGrace)}
	if !p.Now.Before(missed.until) {
		return false, nil, nil
	}
	if deployed {
		missed.kept = kind
		p.RequeueAfter(missed.until.Sub(p.Now))
	}
	return deployed, missed, nil
}

// hasDeployed reports whether the deployed release has an object of the kind with the
// app's name. The chart uses this name.
func hasDeployed(app *v1alpha1.DemoApp, kind string) bool {
	return slices.ContainsFunc(app.Status.Inventory, func(entry releasev1alpha1.InventoryEntry) bool {
		return entry.Kind == kind && entry.Name == app.Name
	})
}

// holdUnknownExposure is the gate of a release that the status did not record. While the
// support is not known for sure, an upgrade could delete the deployed objects of
// spec.ingress.
func holdUnknownExposure(found exposure, spec *v1alpha1.IngressSpec) release.Gate {
	return func(_ context.Context, in release.GateInput) release.Verdict {
		doubt := errors.Join(found.ingressDoubt, found.httpRouteDoubt)
		if doubt == nil || in.Status.DeployedRelease != nil || in.Plan.Observed.Record == nil {
			return release.Verdict{}
		}
		reason, message := found.missing(*spec)
		verdict := release.Verdict{Blockers: []release.Blocker{{Reason: reason, Message: strings.ReplaceAll(message, "\n", "; ")}}}
		if missed, ok := errors.AsType[*absence](doubt); ok {
			verdict.Blockers[0].Message += "; " + missed.Error()
			verdict.RequeueAfter = missed.until.Sub(in.Now)
		}
		return verdict
	}
}

// ingressValues and httpRouteValues are the chart's values for spec.ingress. All values
// except "enabled" depend on the spec alone: see capabilitiesChanged.
func ingressValues(spec *v1alpha1.IngressSpec, found exposure) map[string]any {
	if spec == nil {
		spec = &v1alpha1.IngressSpec{}
	}
	tls := cmp.Or(spec.TLS, &v1alpha1.IngressTLS{})
	return map[string]any{
		"enabled": found.ingress, "host": spec.Host, "className": spec.ClassName,
		"tls": map[string]any{"enabled": spec.TLS != nil, "secretName": tls.SecretName},
	}
}

func httpRouteValues(spec *v1alpha1.IngressSpec, found exposure) map[string]any {
	if spec == nil {
		spec = &v1alpha1.IngressSpec{}
	}
	gateway := cmp.Or(spec.Gateway, &v1alpha1.GatewayReference{})
	return map[string]any{
		"enabled": found.httpRoute, "host": spec.Host,
		"gateway": map[string]any{"name": gateway.Name, "namespace": gateway.Namespace},
	}
}

// variants returns the desired releases for each possible support of spec.ingress by the
// cluster. The first is for no support.
func variants(spec v1alpha1.DemoAppSpec, desired helm.Release) []helm.Release {
	if spec.Ingress == nil {
		return nil
	}
	var found []helm.Release
	for _, supported := range []exposure{{}, {ingress: true}, {httpRoute: true}, {ingress: true, httpRoute: true}} {
		variant := desired
		variant.Values = values.Merge(desired.Values, map[string]any{
			"ingress":   map[string]any{"enabled": supported.ingress},
			"httpRoute": map[string]any{"enabled": supported.httpRoute},
		})
		found = append(found, variant)
	}
	return found
}

// missing returns which objects of spec.ingress the cluster does not support; empty if it
// supports all of them.
func (e exposure) missing(spec v1alpha1.IngressSpec) (reason, message string) {
	var messages []string
	if spec.Gateway != nil && (!e.httpRoute || isAbsence(e.httpRouteDoubt)) {
		why, text := orDoubt(e.httpRouteDoubt, v1alpha1.ReasonGatewayAPIMissing,
			"The cluster does not have the kind HTTPRoute of gateway.networking.k8s.io/"+httpRouteVersion)
		reason, messages = why, append(messages, text)
	}
	if spec.ClassName != "" && (!e.ingress || isAbsence(e.ingressDoubt)) {
		why, text := orDoubt(e.ingressDoubt, v1alpha1.ReasonIngressClassMissing, fmt.Sprintf("IngressClass %q does not exist", spec.ClassName))
		reason, messages = why, append([]string{text}, messages...)
	}
	return reason, strings.Join(messages, "; ")
}

func isAbsence(doubt error) bool {
	_, ok := errors.AsType[*absence](doubt)
	return ok
}

// orDoubt returns the given reason for an absence, and otherwise why the support cannot be observed.
func orDoubt(doubt error, reason, message string) (why, text string) {
	missed, isAbsence := errors.AsType[*absence](doubt)
	switch {
	case isAbsence && missed.kept != "":
		return reason, fmt.Sprintf("%s; the %s is deleted after %s", message, missed.kept, missed.until.UTC().Format(time.RFC3339))
	case doubt != nil && !isAbsence:
		return apimeta.ReasonObserveFailed, doubt.Error()
	default:
		return reason, message
	}
}

// summarizeExposure reports whether the app can be reached from outside the cluster, and
// its host. While a change waits, the deployed objects count.
func summarizeExposure(p *pass, found exposure, outcome release.Outcome) {
	s, spec := &p.Object.Status, p.Object.Spec.Ingress
	settled := outcome.Settled && s.DeployedRelease != nil
	if spec == nil {
		p.Conditions().Remove(v1alpha1.ConditionExposed)
		if settled {
			s.ExternalURL, s.IngressHost = "", ""
		}
		return
	}
	last := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionExposed)
	if !found.known {
		if last != nil {
			p.Conditions().Set(last.Type, last.Status, last.Reason, last.Message)
		}
		return
	}
	switch {
	case settled:
		s.ExternalURL, s.IngressHost = found.address(*spec)
	case found.lostHTTPRoutes(p.Object):
		s.ExternalURL, s.IngressHost = "", ""
	}
	reason, message := found.missing(*spec)
	switch {
	case reason != "":
		p.Conditions().Set(v1alpha1.ConditionExposed, metav1.ConditionFalse, reason, message)
	case settled:
		p.Conditions().Set(v1alpha1.ConditionExposed, metav1.ConditionTrue, v1alpha1.ReasonRouteDeployed,
			fmt.Sprintf("%s for host %s", found, spec.Host))
	case last != nil && last.Status == metav1.ConditionTrue && (s.IngressHost != "" || !outcome.RolledBack):
		p.Conditions().Set(last.Type, last.Status, last.Reason, last.Message)
	default:
		p.Conditions().Set(v1alpha1.ConditionExposed, metav1.ConditionFalse, v1alpha1.ReasonRouteNotDeployed,
			fmt.Sprintf("%s for host %s: not deployed yet", found, spec.Host))
	}
}

// String names the rendered kinds.
func (e exposure) String() string {
	var kinds []string
	if e.ingress {
		kinds = append(kinds, "Ingress")
	}
	if e.httpRoute {
		kinds = append(kinds, "HTTPRoute")
	}
	return strings.Join(kinds, " and ")
}

// lostHTTPRoutes reports whether all deployed objects of spec.ingress were HTTPRoutes that
// were deleted with their kind.
func (e exposure) lostHTTPRoutes(app *v1alpha1.DemoApp) bool {
	return !e.httpRoute && e.httpRouteDoubt == nil && hasDeployed(app, "HTTPRoute") && !hasDeployed(app, "Ingress")
}

// address returns the URL and the host of the app outside the cluster; empty if no object
// of spec.ingress is deployed.
func (e exposure) address(spec v1alpha1.IngressSpec) (address, host string) {
	if !e.ingress && !e.httpRoute {
		return "", ""
	}
	return externalURL(spec), spec.Host
}

// externalURL is the URL of the app outside the cluster; empty for a wildcard host.
func externalURL(spec v1alpha1.IngressSpec) string {
	if strings.HasPrefix(spec.Host, "*") {
		return ""
	}
	address := url.URL{Scheme: "http", Host: spec.Host}
	if spec.TLS != nil {
		address.Scheme = "https"
	}
	return address.String()
}

// exposureTransition reports that the cluster does not support spec.ingress. New support
// is reported by the event of the upgrade.
func exposureTransition(before, after v1alpha1.DemoAppStatus) (event.Event, bool) {
	is := meta.FindStatusCondition(after.Conditions, v1alpha1.ConditionExposed)
	if is == nil || is.Status == metav1.ConditionTrue || is.Reason == v1alpha1.ReasonRouteNotDeployed {
		return event.Event{}, false
	}
	was := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionExposed)
	if was != nil && was.Reason == is.Reason {
		return event.Event{}, false
	}
	return event.Warning(is.Reason, "Reconcile", is.Message), true
}

// awaitsKind returns the reason of an operation that failed because not all API servers
// serve HTTPRoute yet. Their CustomResourceDefinition was just created. Nothing was
// changed, and a retry soon succeeds.
func (e exposure) awaitsKind(err error) string {
	if e.httpRoute && meta.IsNoMatchError(err) {
		return v1alpha1.ReasonGatewayAPIMissing
	}
	return ""
}

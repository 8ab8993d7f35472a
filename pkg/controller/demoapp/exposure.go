// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/event"
	"github.com/example/demoapp-controller/pkg/helm"
)

// exposure is what of spec.ingress the cluster supports, once that is known.
type exposure struct {
	known, ingress, httpRoute bool
	// ingressFailure and httpRouteFailure are why it cannot be found out. What is
	// deployed then stands for what is supported.
	ingressFailure, httpRouteFailure error
}

// observeExposure finds out what of spec.ingress the cluster supports. Where the
// operator may not know, what is deployed is kept: Exposed holds nothing.
func (c *Controller) observeExposure(p *pass) error {
	spec, found := p.app.Spec.Ingress, exposure{known: true}
	if spec == nil {
		return nil
	}
	if spec.ClassName != "" {
		has, err := c.capabilities.hasClass(p.key(), spec.ClassName)
		if failureOf(err) != nil {
			has, found.ingressFailure = hasDeployed(p.app, "Ingress"), err
		} else if err != nil {
			return err
		}
		found.ingress = has
	}
	if spec.Gateway != nil {
		has, err := c.capabilities.hasHTTPRoutes(p.key())
		if failureOf(err) != nil {
			has, found.httpRouteFailure = hasDeployed(p.app, "HTTPRoute"), err
		} else if err != nil {
			return err
		}
		found.httpRoute = has
	}
	p.exposure = found
	return nil
}

// hasDeployed reports whether the deployed release has an object of a kind under the
// app's own name, which is what the chart calls it.
func hasDeployed(app *v1alpha1.DemoApp, kind string) bool {
	return slices.ContainsFunc(app.Status.Inventory, func(entry releasev1alpha1.InventoryEntry) bool {
		return entry.Kind == kind && entry.Name == app.Name
	})
}

// holdUnknownExposure is the gate of a release that the status does not know: what it
// has of spec.ingress, an upgrade could take away while the cluster cannot be asked.
func holdUnknownExposure(_ context.Context, p *pass) {
	failure := errors.Join(p.exposure.ingressFailure, p.exposure.httpRouteFailure)
	if failure == nil || p.app.Status.DeployedRelease != nil || p.plan.Observed.Record == nil {
		return
	}
	p.blockers = append(p.blockers, blocker{
		reason: apimeta.ReasonObserveFailed, message: strings.ReplaceAll(failure.Error(), "\n", "; "),
	})
}

// ingressValues and httpRouteValues are the chart's values for spec.ingress. All
// but "enabled" follow the spec alone: see capabilitiesChanged.
func ingressValues(spec *v1alpha1.IngressSpec, found exposure) map[string]any {
	if spec == nil {
		spec = &v1alpha1.IngressSpec{}
	}
	tls := orElse(spec.TLS, &v1alpha1.IngressTLS{})
	return map[string]any{
		"enabled": found.ingress, "host": spec.Host, "className": spec.ClassName,
		"tls": map[string]any{"enabled": spec.TLS != nil, "secretName": tls.SecretName},
	}
}

func httpRouteValues(spec *v1alpha1.IngressSpec, found exposure) map[string]any {
	if spec == nil {
		spec = &v1alpha1.IngressSpec{}
	}
	gateway := orElse(spec.Gateway, &v1alpha1.GatewayReference{})
	return map[string]any{
		"enabled": found.httpRoute, "host": spec.Host,
		"gateway": map[string]any{"name": gateway.Name, "namespace": gateway.Namespace},
	}
}

// capabilitiesChanged reports whether the newest revision is what would be
// wanted now if the cluster supported something else of spec.ingress.
func capabilitiesChanged(p *pass, chart *helm.Chart) bool {
	record := p.plan.Observed.Record
	if p.app.Spec.Ingress == nil || p.wanted == nil || record == nil || !record.MadeFrom(chart) || record.Inputs == p.inputs {
		return false
	}
	for _, was := range []exposure{{}, {ingress: true}, {httpRoute: true}, {ingress: true, httpRoute: true}} {
		if inputs, err := withExposure(*p.wanted, was).InputDigest(); err == nil && inputs == record.Inputs {
			return true
		}
	}
	return false
}

// withExposure is the release as it would be wanted if the cluster supported this.
func withExposure(wanted helm.Release, found exposure) helm.Release {
	wanted.Values = merged(wanted.Values, map[string]any{
		"ingress":   map[string]any{"enabled": found.ingress},
		"httpRoute": map[string]any{"enabled": found.httpRoute},
	})
	return wanted
}

// missing says what of spec.ingress the cluster does not support, or may not; nothing
// when it supports all of it.
func (e exposure) missing(spec v1alpha1.IngressSpec) (reason, message string) {
	var messages []string
	if spec.Gateway != nil && !e.httpRoute {
		why, text := orFailure(e.httpRouteFailure, v1alpha1.ReasonGatewayAPIMissing,
			"The cluster does not have the kind HTTPRoute of gateway.networking.k8s.io/"+httpRouteVersion)
		reason, messages = why, append(messages, text)
	}
	if spec.ClassName != "" && !e.ingress {
		why, text := orFailure(e.ingressFailure, v1alpha1.ReasonIngressClassMissing, fmt.Sprintf("IngressClass %q does not exist", spec.ClassName))
		reason, messages = why, append([]string{text}, messages...)
	}
	return reason, strings.Join(messages, "; ")
}

// orFailure is what is missing or, where that cannot be told, why.
func orFailure(failure error, reason, message string) (why, text string) {
	if failure != nil {
		return apimeta.ReasonObserveFailed, failure.Error()
	}
	return reason, message
}

// summarizeExposure says whether the app can be reached from outside the
// cluster, and under which host. While a change waits, what was deployed before
// counts.
func (p *pass) summarizeExposure() {
	s, spec, settled := &p.app.Status, p.app.Spec.Ingress, p.isSettled()
	if spec == nil {
		p.conditions().Remove(v1alpha1.ConditionExposed)
		if settled {
			s.ExternalURL, s.IngressHost = "", ""
		}
		return
	}
	last := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionExposed)
	if !p.exposure.known {
		if last != nil {
			p.conditions().Set(last.Type, last.Status, last.Reason, last.Message)
		}
		return
	}
	switch {
	case settled:
		s.ExternalURL, s.IngressHost = p.exposure.address(*spec)
	case p.exposure.routesWent(p.app):
		s.ExternalURL, s.IngressHost = "", ""
	}
	reason, message := p.exposure.missing(*spec)
	switch {
	case reason != "":
		p.conditions().Set(v1alpha1.ConditionExposed, metav1.ConditionFalse, reason, message)
	case settled:
		p.conditions().Set(v1alpha1.ConditionExposed, metav1.ConditionTrue, v1alpha1.ReasonRouteDeployed,
			fmt.Sprintf("%s for host %s", p.exposure, spec.Host))
	case last != nil && last.Status == metav1.ConditionTrue && (s.IngressHost != "" || !p.plan.Wanted.RolledBack):
		p.conditions().Set(last.Type, last.Status, last.Reason, last.Message)
	default:
		p.conditions().Set(v1alpha1.ConditionExposed, metav1.ConditionFalse, v1alpha1.ReasonRouteNotDeployed,
			fmt.Sprintf("%s for host %s: not deployed yet", p.exposure, spec.Host))
	}
}

// String names what is rendered.
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

// isSettled reports whether the deployed release is the one that is wanted.
func (p *pass) isSettled() bool {
	return p.wanted != nil && p.app.Status.DeployedRelease != nil && p.plan.Observed.Record != nil &&
		!p.plan.Withheld && !p.plan.RollsOut() && !p.plan.Wanted.RolledBack && p.plan.Wanted.Action != helm.ActionWait
}

// routesWent reports whether all that the release had for the outside were
// HTTPRoutes, which went together with their kind.
func (e exposure) routesWent(app *v1alpha1.DemoApp) bool {
	return !e.httpRoute && e.httpRouteFailure == nil && hasDeployed(app, "HTTPRoute") && !hasDeployed(app, "Ingress")
}

// address is under which URL and which host a deployed release answers outside the
// cluster; nothing when nothing of spec.ingress is deployed.
func (e exposure) address(spec v1alpha1.IngressSpec) (address, host string) {
	if !e.ingress && !e.httpRoute {
		return "", ""
	}
	return externalURL(spec), spec.Host
}

// externalURL is where the app answers outside the cluster; nothing for a host
// that stands for many.
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

// exposureTransition tells that the cluster does not support, or no longer,
// what spec.ingress asks for. That it does has the event of the upgrade.
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

// awaitsKind reports whether an operation failed because the API server does
// not serve HTTPRoutes everywhere yet: their CustomResourceDefinition has come a
// moment ago. Nothing was changed, and trying again soon helps.
func (p *pass) awaitsKind(err error) bool { return p.exposure.httpRoute && meta.IsNoMatchError(err) }

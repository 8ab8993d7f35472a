// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"net/http"

	"helm.sh/helm/v4/pkg/action"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/example/demoapp-controller/pkg/helm/guard"
)

// recordedLookups is the source of the client for the template function lookup of a recorded chart.
// Every client that may edit Secrets of a namespace can change the charts of its records, and a
// lookup has the permissions of the client that renders the chart. So a lookup finds only objects
// of the namespace, and cluster-scoped objects.
type recordedLookups struct {
	action.RESTClientGetter

	namespace string
}

// ToRESTConfig implements action.RESTClientGetter.
func (l recordedLookups) ToRESTConfig() (*rest.Config, error) {
	config, err := l.RESTClientGetter.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	mapper, err := l.ToRESTMapper()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return namespaceTransport{namespace: l.namespace, mapper: mapper, next: next}
	})
	return config, nil
}

// namespaceTransport refuses requests for objects of other namespaces.
type namespaceTransport struct {
	namespace string
	mapper    meta.RESTMapper
	next      http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t namespaceTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := t.allow(request.URL.Path); err != nil {
		return nil, err
	}
	return t.next.RoundTrip(request)
}

func (t namespaceTransport) allow(path string) error {
	if namespace := guard.RequestNamespace(path); namespace != "" {
		if namespace != t.namespace {
			return fmt.Errorf("a recorded chart may only look up objects of namespace %s, got namespace %s", t.namespace, namespace)
		}
		return nil
	}
	version, resource := requestResource(path)
	if version == "" {
		return nil // The request is not about objects.
	}
	group, err := schema.ParseGroupVersion(version)
	if err != nil {
		return err
	}
	kind, err := t.mapper.KindFor(group.WithResource(resource))
	if err != nil {
		return err
	}
	mapping, err := t.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return fmt.Errorf("a recorded chart may only look up objects of namespace %s, got %s of all namespaces", t.namespace, resource)
	}
	return nil
}

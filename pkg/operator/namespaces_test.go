// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestWatchNamespaces(t *testing.T) {
	forbidden := apierrors.NewForbidden(corev1.Resource("namespaces"), "", errors.New("not granted"))
	broken := apierrors.NewBadRequest("broken")
	tests := map[string]struct {
		namespaces []string
		// refuse are the answers by verb.
		refuse map[string]error
		want   error
		// watches means that Namespaces are watched.
		watches bool
	}{
		"all namespaces":              {watches: true},
		"some namespaces":             {namespaces: []string{"a"}, refuse: map[string]error{"list": broken}},
		"without permission to list":  {refuse: map[string]error{"list": forbidden}},
		"without permission to watch": {refuse: map[string]error{"watch": forbidden}},
		"another failure":             {refuse: map[string]error{"list": broken}, want: broken},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				environment := NewEnvironment("test", &Clients{Metadata: namespacesOf(t, test.refuse)}, test.namespaces, nil, prometheus.NewRegistry())

				services, err := watchNamespaces(t.Context(), environment)

				if !errors.Is(err, test.want) {
					t.Fatalf("error is %v, want %v", err, test.want)
				}
				if watches := environment.NamespaceMetadata != nil; watches != test.watches || watches != (len(services) == 1) {
					t.Fatalf("Namespaces are watched: %v, by %d services", watches, len(services))
				}
				if !test.watches {
					return
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- services[0].Run(ctx) }()
				synctest.Wait()
				if !environment.NamespaceMetadata.IsPaused("paused") || environment.NamespaceMetadata.IsPaused("other") {
					t.Error("the annotation of the Namespace is not seen")
				}
				stop()
				if err := <-ended; err != nil {
					t.Errorf("the service ends with %v", err)
				}
			})
		})
	}
}

// namespacesOf returns a client of the metadata of a paused Namespace and of another one.
func namespacesOf(t *testing.T, refuse map[string]error) *metadatafake.FakeMetadataClient {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	namespace := func(name, paused string) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{"demo.example.com/paused": paused}},
		}
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, namespace("paused", "true"), namespace("other", "false"))
	client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		err := refuse[action.GetVerb()]
		return err != nil, nil, err
	})
	client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		err := refuse[action.GetVerb()]
		return err != nil, nil, err
	})
	return client
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/release"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
)

// The limits of apiKey in the API, in characters. The operator checks them for a key from
// a Secret, because the API server cannot.
const (
	minKeyLength = 8
	maxKeyLength = 1024
)

// observeAPIKey returns the API key, or the blocker without a key.
func (c *Controller) observeAPIKey(ctx context.Context, app *v1alpha1.DemoApp) (key string, missing []release.Blocker, _ error) {
	from := app.Spec.APIKeyFrom
	if from == nil {
		return app.Spec.APIKey, nil, nil
	}
	source := secretKey(app, *from)
	got, err := c.sources.Read(ctx, cache.MetaObjectToName(app), source)
	if err != nil {
		return "", nil, fmt.Errorf("read apiKeyFrom: %w", err)
	}
	if missing := checkKey(*from, got); missing != nil {
		return "", []release.Blocker{*missing}, nil
	}
	return got.Text, nil, nil
}

// secretKey is the Secret key that apiKeyFrom names.
func secretKey(app *v1alpha1.DemoApp, from v1alpha1.SecretKeyReference) values.Key {
	return values.Key{
		Object: values.Object{Kind: releasev1alpha1.ValuesFromSecret, Name: cache.NewObjectName(app.Namespace, from.Name)}, Key: from.Key,
	}
}

// sourcesOf returns all ConfigMap and Secret keys that an app reads.
func sourcesOf(app *v1alpha1.DemoApp) []values.Key {
	var keys []values.Key
	if from := app.Spec.APIKeyFrom; from != nil {
		keys = append(keys, secretKey(app, *from))
	}
	for _, from := range app.Spec.ValuesFrom {
		keys = append(keys, values.KeyOf(app.Namespace, from))
	}
	return keys
}

// bySource indexes DemoApps by the ConfigMaps and Secrets that they read.
const bySource = "sources"

func sourceIndex(object any) ([]string, error) {
	app, ok := object.(*v1alpha1.DemoApp)
	if !ok {
		return nil, nil
	}
	var found []string
	for _, key := range sourcesOf(app) {
		found = append(found, key.Object.String())
	}
	return found, nil
}

// readersOf returns a function that maps an object of the kind to the apps that read it.
func (c *Controller) readersOf(kind releasev1alpha1.ValuesKind) func(*metav1.PartialObjectMetadata) []cache.ObjectName {
	return func(object *metav1.PartialObjectMetadata) []cache.ObjectName {
		source := values.Object{Kind: kind, Name: cache.MetaObjectToName(object)}
		apps := c.Cached().ByIndex(object.Namespace, bySource, source.String())
		readers := make([]cache.ObjectName, 0, len(apps))
		for _, app := range apps {
			readers = append(readers, cache.MetaObjectToName(app))
		}
		return readers
	}
}

// checkKey returns a blocker if the key is unavailable or outside the limits of apiKey.
// The message never shows the key.
func checkKey(from v1alpha1.SecretKeyReference, got values.Found) *release.Blocker {
	length := utf8.RuneCountInString(got.Text)
	switch {
	case got.NoObject:
		return &release.Blocker{
			Reason:  v1alpha1.ReasonSecretNotFound,
			Message: fmt.Sprintf("Secret %q, which is to hold key %q, does not exist in this namespace", from.Name, from.Key),
		}
	case got.NoKey:
		return &release.Blocker{
			Reason:  v1alpha1.ReasonKeyNotFound,
			Message: fmt.Sprintf("Secret %q has no key %q", from.Name, from.Key),
		}
	case !utf8.ValidString(got.Text):
		return &release.Blocker{
			Reason:  v1alpha1.ReasonKeyInvalid,
			Message: fmt.Sprintf("Key %q of Secret %q is not text (UTF-8)", from.Key, from.Name),
		}
	case length < minKeyLength || length > maxKeyLength:
		return &release.Blocker{
			Reason:  v1alpha1.ReasonKeyInvalid,
			Message: fmt.Sprintf("Key %q of Secret %q has %d characters; it must have %d to %d", from.Key, from.Name, length, minKeyLength, maxKeyLength),
		}
	default:
		return nil
	}
}

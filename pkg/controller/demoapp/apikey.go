// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"unicode/utf8"

	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
)

// The limits of apiKey in the API, in characters. A key from a Secret has them,
// too, and nobody but the operator can check.
const (
	minKeyLength = 8
	maxKeyLength = 1024
)

// observeAPIKey finds the key to deploy with. While there is none, the release
// waits.
func (c *Controller) observeAPIKey(ctx context.Context, p *pass) error {
	c.sources.use(p.key(), sourcesOf(p.app))
	from := p.app.Spec.APIKeyFrom
	if from == nil {
		p.apiKey = p.app.Spec.APIKey
		return nil
	}
	object := cache.ObjectName{Namespace: p.app.Namespace, Name: from.Name}
	got, err := c.sources.read(ctx, p.key(), sourceKey{sourceObject{releasev1alpha1.ValuesFromSecret, object}, from.Key})
	if err != nil {
		return fmt.Errorf("read the key that apiKeyFrom names: %w", err)
	}
	if missing := checkKey(*from, got); missing != nil {
		p.blockers = append(p.blockers, *missing)
		return nil
	}
	p.apiKey = got.text
	return nil
}

// checkKey tells why a key cannot be had, or why it is none: one from a Secret
// is held to the limits of apiKey. The message never shows the key.
func checkKey(from v1alpha1.SecretKeyReference, got found) *blocker {
	length := utf8.RuneCountInString(got.text)
	switch {
	case got.noObject:
		return &blocker{
			reason:  v1alpha1.ReasonSecretNotFound,
			message: fmt.Sprintf("Secret %q, which is to hold key %q, does not exist in this namespace", from.Name, from.Key),
		}
	case got.noKey:
		return &blocker{
			reason:  v1alpha1.ReasonKeyNotFound,
			message: fmt.Sprintf("Secret %q has no key %q", from.Name, from.Key),
		}
	case !utf8.ValidString(got.text):
		return &blocker{
			reason:  v1alpha1.ReasonKeyInvalid,
			message: fmt.Sprintf("Key %q of Secret %q is not text (UTF-8)", from.Key, from.Name),
		}
	case length < minKeyLength || length > maxKeyLength:
		return &blocker{
			reason:  v1alpha1.ReasonKeyInvalid,
			message: fmt.Sprintf("Key %q of Secret %q has %d characters; it must have %d to %d", from.Key, from.Name, length, minKeyLength, maxKeyLength),
		}
	default:
		return nil
	}
}

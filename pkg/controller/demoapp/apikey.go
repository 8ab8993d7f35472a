// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package demoapp

import (
	"context"
	"fmt"
	"sync"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	v1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
)

// bySecret indexes DemoApps by the Secret that apiKeyFrom names.
const bySecret = "apiKeyFrom"

// The limits of apiKey in the API, in characters. A key from a Secret has them,
// too, and nobody but the operator can check.
const (
	minKeyLength = 8
	maxKeyLength = 1024
)

func secretIndex(object any) ([]string, error) {
	app, ok := object.(*v1alpha1.DemoApp)
	if !ok || app.Spec.APIKeyFrom == nil {
		return nil, nil
	}
	return []string{cache.ObjectName{Namespace: app.Namespace, Name: app.Spec.APIKeyFrom.Name}.String()}, nil
}

// usersOf are the apps whose key comes from a Secret.
func (c *Controller) usersOf(secret *metav1.PartialObjectMetadata) []cache.ObjectName {
	apps := c.cached.ByIndex(secret.Namespace, bySecret, cache.MetaObjectToName(secret).String())
	users := make([]cache.ObjectName, 0, len(apps))
	for _, app := range apps {
		users = append(users, cache.MetaObjectToName(app))
	}
	return users
}

// observeAPIKey finds the key to deploy with. While there is none, the release
// waits.
func (c *Controller) observeAPIKey(ctx context.Context, p *pass) error {
	from := p.app.Spec.APIKeyFrom
	if from == nil {
		c.keys.release(p.key())
		p.apiKey = p.app.Spec.APIKey
		return nil
	}
	value, missing, err := c.keys.read(ctx, p.key(), *from)
	if err != nil {
		return fmt.Errorf("read the key that apiKeyFrom names: %w", err)
	}
	if missing == nil {
		missing = checkKey(*from, value)
	}
	if missing != nil {
		p.blockers = append(p.blockers, *missing)
		return nil
	}
	p.apiKey = value
	return nil
}

// checkKey holds a key from a Secret to the limits of apiKey. Its message never
// shows the key.
func checkKey(from v1alpha1.SecretKeyReference, value string) *blocker {
	length := utf8.RuneCountInString(value)
	switch {
	case !utf8.ValidString(value):
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

// secretKeys reads single keys of Secrets. It watches the Secrets' metadata and
// keeps the keys that were asked for, so that a Secret is read only when it has
// changed.
type secretKeys struct {
	secrets corev1client.SecretsGetter
	cached  controller.Scoped[*metav1.PartialObjectMetadata]

	mu    sync.Mutex
	known map[knownKey]knownValue
	// users are the apps that asked, each for its key. A value is kept as long as
	// it has one.
	users map[cache.ObjectName]knownKey
}

type knownKey struct {
	secret cache.ObjectName
	key    string
}

type knownValue struct {
	uid             types.UID
	resourceVersion string
	value           string
	found           bool
}

func newSecretKeys(secrets corev1client.SecretsGetter) *secretKeys {
	return &secretKeys{
		secrets: secrets,
		cached:  controller.Scoped[*metav1.PartialObjectMetadata]{},
		known:   map[knownKey]knownValue{},
		users:   map[cache.ObjectName]knownKey{},
	}
}

// read returns the value of the key that an app names, or why there is none.
func (s *secretKeys) read(ctx context.Context, app cache.ObjectName, from v1alpha1.SecretKeyReference) (string, *blocker, error) {
	id := knownKey{secret: cache.ObjectName{Namespace: app.Namespace, Name: from.Name}, key: from.Key}
	s.use(app, id)
	secret, ok := s.cached.Get(id.secret)
	if !ok {
		s.forget(id)
		return "", noSecret(from), nil
	}
	s.mu.Lock()
	known, ok := s.known[id]
	s.mu.Unlock()
	if !ok || known.uid != secret.UID || known.resourceVersion != secret.ResourceVersion {
		var err error
		if known, err = s.fetch(ctx, id); apierrors.IsNotFound(err) {
			return "", noSecret(from), nil
		} else if err != nil {
			return "", nil, err
		}
	}
	if !known.found {
		return "", &blocker{
			reason:  v1alpha1.ReasonKeyNotFound,
			message: fmt.Sprintf("Secret %q has no key %q", from.Name, from.Key),
		}, nil
	}
	return known.value, nil, nil
}

func (s *secretKeys) fetch(ctx context.Context, id knownKey) (knownValue, error) {
	secret, err := s.secrets.Secrets(id.secret.Namespace).Get(ctx, id.secret.Name, metav1.GetOptions{})
	if err != nil {
		return knownValue{}, fmt.Errorf("get Secret %s: %w", id.secret, err)
	}
	data, found := secret.Data[id.key]
	known := knownValue{uid: secret.UID, resourceVersion: secret.ResourceVersion, value: string(data), found: found}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[id] = known
	return known, nil
}

func (s *secretKeys) forget(id knownKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
}

// use notes what an app asks for.
func (s *secretKeys) use(app cache.ObjectName, id knownKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[app] != id {
		s.drop(app)
		s.users[app] = id
	}
}

// release notes that an app asks for no key any more.
func (s *secretKeys) release(app cache.ObjectName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(app)
}

func (s *secretKeys) drop(app cache.ObjectName) {
	id, ok := s.users[app]
	if !ok {
		return
	}
	delete(s.users, app)
	for _, other := range s.users {
		if other == id {
			return
		}
	}
	delete(s.known, id)
}

func noSecret(from v1alpha1.SecretKeyReference) *blocker {
	return &blocker{
		reason:  v1alpha1.ReasonSecretNotFound,
		message: fmt.Sprintf("Secret %q, which is to hold key %q, does not exist in this namespace", from.Name, from.Key),
	}
}

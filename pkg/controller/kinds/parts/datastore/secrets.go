// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// maxPassword is the maximum size of a password in bytes that all clients support.
const maxPassword = 256

var (
	identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)
	// usable replaces a password in the cache.
	usable = []byte("usable")
)

// Layout describes a Secret with credentials.
type Layout struct {
	// Label is the label of the Secret. Its value is the name of the owner. On a Secret of a user,
	// the label consents to use the Secret and to add missing keys.
	Label string
	// Names maps the keys of names to their defaults. Reserved has the names that are not allowed.
	Names    map[string]string
	Reserved []string
	// Password is the key of the password that a Secret of a user must have.
	Password string
	// Generated are the keys of passwords that are generated if the Secret lacks them.
	Generated []string
}

func (l Layout) keys() []string {
	return append(slices.Concat(slices.Sorted(maps.Keys(l.Names)), l.Generated), l.Password)
}

// defaults returns the values that a Secret of a user may omit. Passwords have 130 bits.
func (l Layout) defaults() map[string][]byte {
	values := map[string][]byte{}
	for key, name := range l.Names {
		values[key] = []byte(name)
	}
	for _, key := range l.Generated {
		values[key] = []byte(rand.Text())
	}
	return values
}

// reduce keeps names, and replaces a valid password by usable. An invalid value becomes empty.
func (l Layout) reduce(whole *corev1.Secret, metadata metav1.ObjectMeta) *corev1.Secret {
	reduced := &corev1.Secret{ObjectMeta: metadata, Data: map[string][]byte{}}
	if uid, ok := whole.Annotations[databasev1.AnnotationCreatedFor]; ok && len(uid) <= maxAnnotation {
		reduced.Annotations = map[string]string{databasev1.AnnotationCreatedFor: uid}
	}
	for _, key := range l.keys() {
		value, ok := whole.Data[key]
		_, isName := l.Names[key]
		switch {
		case !ok:
		case isName && identifier.Match(value) && !slices.Contains(l.Reserved, string(value)) && !bytes.HasPrefix(value, []byte("pg_")):
			reduced.Data[key] = value
		case !isName && len(value) > 0 && len(value) <= maxPassword && !bytes.ContainsAny(value, "\n\r\x00"):
			reduced.Data[key] = usable
		default:
			reduced.Data[key] = nil
		}
	}
	return reduced
}

// problem returns the problem of a missing or invalid key of a reduced Secret, or nil.
func (l Layout) problem(secret *corev1.Secret) *Problem {
	for _, key := range l.keys() {
		value, ok := secret.Data[key]
		_, isName := l.Names[key]
		rule := fmt.Sprintf("must be one line of 1 to %d bytes", maxPassword)
		switch {
		case len(value) > 0:
			continue
		case !ok:
			rule = "is missing: add it"
		case isName:
			rule = "must be 1 to 63 lower-case letters, digits and underscores, and no name that the database reserves"
		}
		return &Problem{databasev1.ReasonCredentialsInvalid, fmt.Sprintf("Secret %q, key %q: %s", secret.Name, key, rule)}
	}
	return nil
}

// Secrets are the Secrets with credentials. No password is cached.
type Secrets struct {
	*child.Labeled[*corev1.Secret]

	layout Layout
	kube   kubernetes.Interface
}

// NewSecrets returns the Secrets with the label of the layout.
func NewSecrets(env child.Informers, kube kubernetes.Interface, layout Layout) (*Secrets, error) {
	secrets, err := child.NewLabeled(env, "Secrets", layout.Label, kube, kube.CoreV1().Secrets, layout.reduce)
	return &Secrets{secrets, layout, kube}, err
}

// Ensure returns the names in the Secret of an owner, by key. It creates a missing Secret, unless a
// volume may have data of a lost password. It adds missing keys with defaults to a Secret of a user
// that has the label. A Secret with the label that another controller writes must have all keys.
// Existing values are never changed. A Secret without the label is an ownership conflict, because it may
// have another purpose.
//
// An [*child.OwnershipConflictError] and an [*child.RefusedError] are terminal.
func (s *Secrets) Ensure(ctx context.Context, owner metav1.Object, name string, v Volumes) (map[string]string, *Problem, error) {
	secret, problem, err := s.find(ctx, owner, name, v)
	if problem != nil || err != nil {
		return nil, problem, err
	}
	completed, err := s.complete(ctx, owner, secret)
	if apierrors.IsConflict(err) {
		// The cache was stale, and the live Secret may have the keys. If the read fails, the
		// conflict is retried.
		if live, getErr := s.kube.CoreV1().Secrets(owner.GetNamespace()).Get(ctx, name, metav1.GetOptions{}); getErr == nil {
			completed, err = s.complete(ctx, owner, s.layout.reduce(live, live.ObjectMeta))
		}
	}
	if err != nil {
		return nil, nil, err
	}
	names := map[string]string{}
	for key := range s.layout.Names {
		names[key] = string(completed.Data[key])
	}
	return names, s.layout.problem(completed), nil
}

// find returns the reduced Secret. It creates a missing Secret if no volume may have data.
func (s *Secrets) find(ctx context.Context, owner metav1.Object, name string, v Volumes) (*corev1.Secret, *Problem, error) {
	if secret, ok := s.Get(owner.GetNamespace(), name); ok {
		return secret, nil, nil
	}
	secrets := s.kube.CoreV1().Secrets(owner.GetNamespace())
	if !v.Exist {
		created, err := secrets.Create(ctx, s.generate(owner, name), metav1.CreateOptions{FieldManager: child.FieldManager})
		if err == nil {
			s.Wrote(created)
			return s.layout.reduce(created, created.ObjectMeta), nil, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, nil, fmt.Errorf("create Secret %q: %w", name, ssa.Withheld(err))
		}
	}
	live, err := secrets.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && v.leaving != "":
		return nil, &Problem{childv1alpha1.ReasonWaitingForDeletion, fmt.Sprintf("Waiting: PersistentVolumeClaim %q is being deleted", v.leaving)}, nil
	case apierrors.IsNotFound(err):
		return nil, &Problem{databasev1.ReasonCredentialsMissing, fmt.Sprintf(
			"Secret %q is missing, and the volumes may hold data: restore the Secret with the label %s=%s, or delete the PersistentVolumeClaims of "+
				"the servers to begin with an empty database", name, s.layout.Label, owner.GetName())}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("get Secret %q: %w", name, err)
	}
	return s.layout.reduce(live, live.ObjectMeta), nil, nil
}

// generate returns a Secret with new passwords.
func (s *Secrets) generate(owner metav1.Object, name string) *corev1.Secret {
	data := s.layout.defaults()
	data[s.layout.Password] = []byte(rand.Text())
	labels := child.Inherited(owner)
	maps.Copy(labels, map[string]string{s.layout.Label: owner.GetName(), child.ManagedByLabel: child.FieldManager})
	return &corev1.Secret{Data: data, ObjectMeta: metav1.ObjectMeta{
		Namespace: owner.GetNamespace(), Name: name, Labels: labels,
		Annotations: map[string]string{databasev1.AnnotationCreatedFor: string(owner.GetUID())},
	}}
}

// complete adds missing keys to a Secret, unless another controller writes the Secret: the keys would
// not last. The error is a conflict if the Secret has changed since this version.
func (s *Secrets) complete(ctx context.Context, owner metav1.Object, secret *corev1.Secret) (*corev1.Secret, error) {
	ref := metav1.GetControllerOf(secret)
	if holder := secret.Labels[s.layout.Label]; holder != owner.GetName() {
		conflict := &child.OwnershipConflictError{
			Object: child.Named("Secret", secret.Name), Holder: "no owner",
			Remedy: fmt.Sprintf("add the label %s=%s if %s may use and complete the Secret", s.layout.Label, owner.GetName(), owner.GetName()),
		}
		switch {
		case ref != nil:
			conflict.Holder = fmt.Sprintf("%s %q", ref.Kind, ref.Name)
			conflict.Remedy = fmt.Sprintf("let it set the label %s=%s if %s may use the Secret, or %s", s.layout.Label, owner.GetName(), owner.GetName(), child.DeleteOrRename)
		case holder != "":
			conflict.Holder = fmt.Sprintf("%q by its label %s", holder, s.layout.Label)
		}
		return nil, controller.Terminal(conflict)
	}
	missing := s.layout.defaults()
	for key := range secret.Data {
		delete(missing, key)
	}
	if len(missing) == 0 || ref != nil {
		return secret, nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": secret.UID, "resourceVersion": secret.ResourceVersion}, "data": missing,
	})
	if err != nil {
		return nil, err
	}
	written, err := s.kube.CoreV1().Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, data,
		metav1.PatchOptions{FieldManager: child.FieldManager})
	if apierrors.IsInvalid(err) {
		return nil, controller.Terminal(&child.RefusedError{Object: child.Named("Secret", secret.Name), Err: err})
	}
	if err != nil {
		return nil, fmt.Errorf("complete Secret %q: %w", secret.Name, ssa.Withheld(err))
	}
	s.Wrote(written)
	return s.layout.reduce(written, written.ObjectMeta), nil
}

// Inherit sets the labels that the owner passes on, on the Secret of the name if the operator
// created it. See [child.Labeled.Inherit].
func (s *Secrets) Inherit(ctx context.Context, owner metav1.Object, name string, now time.Time, retryAfter func(time.Duration)) error {
	return s.Labeled.Inherit(ctx, owner, corev1.SchemeGroupVersion.WithKind("Secret"), s.kube.CoreV1().Secrets(owner.GetNamespace()),
		func(secret *corev1.Secret) bool {
			return secret.Name == name && secret.Labels[child.ManagedByLabel] == child.FieldManager && metav1.GetControllerOf(secret) == nil
		}, now, retryAfter)
}

// Delete deletes the Secret of an owner if the operator created it for this owner, or created it for an
// earlier one and this one has run with it. It reports whether it did so.
func (s *Secrets) Delete(ctx context.Context, owner metav1.Object, name string, ran bool) (deleted bool, err error) {
	secret, ok := s.Get(owner.GetNamespace(), name)
	if !ok || secret.Labels[child.ManagedByLabel] != child.FieldManager || secret.Labels[s.layout.Label] != owner.GetName() ||
		metav1.GetControllerOf(secret) != nil || !ran && secret.Annotations[databasev1.AnnotationCreatedFor] != string(owner.GetUID()) {
		return false, nil
	}
	if err := gone(s.kube.CoreV1().Secrets(secret.Namespace).Delete(ctx, name, bound(secret)), name); err != nil {
		return false, fmt.Errorf("delete Secret %q: %w", name, err)
	}
	return true, nil
}

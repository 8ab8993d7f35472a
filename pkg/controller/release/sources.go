// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/release/values"
	"github.com/example/demoapp-controller/pkg/helm/chart"
	"github.com/example/demoapp-controller/pkg/redact"
)

// Sources are the Secrets and ConfigMaps that an object names, in its own namespace. They are watched
// without caching their contents. A change of one starts a pass. While one is missing or invalid,
// changes wait, and the status says so. No message shows a text from a Secret.
type Sources[T any] struct {
	// Reader reads the objects. All kinds of a process share it. Required with Keys or ValuesFrom.
	Reader *values.Sources
	// Keys returns the keys of Secrets whose texts become values. Desired.Keys has the texts.
	Keys func(T) []SecretKey
	// ValuesFrom returns the references to values, and the values within the object, which override
	// the references. Desired.Release.Values has them.
	ValuesFrom func(T) ([]releasev1alpha1.ValuesReference, *runtime.RawExtension)
}

// defaultKeyLength is the default of SecretKey.MaxLength.
const defaultKeyLength = 4096

// SecretKey is a key of a Secret that an object names. Its value must be text.
type SecretKey struct {
	// Field is the field that names the key, and the key of Desired.Keys.
	Field string
	// From is nil if the object names no key.
	From *releasev1alpha1.SecretKeyReference
	// MinLength and MaxLength are the limits of the text, in characters; by default 1 and 4096.
	MinLength, MaxLength int
}

// validate returns an error if nothing would read the sources.
func (s Sources[T]) validate() error {
	if s.Reader == nil && (s.Keys != nil || s.ValuesFrom != nil) {
		return errors.New("Options.Sources needs a Reader for Keys and ValuesFrom")
	}
	return nil
}

// gates say how the status of an object shows that its sources hold it, for metrics. They have no
// condition of their own, so they count while they are the reason of Ready.
func (s Sources[T]) gates() (gates []kind.Gate) {
	if s.Keys != nil {
		gates = append(gates, kind.HeldFor("key",
			releasev1alpha1.ReasonSecretNotFound, releasev1alpha1.ReasonKeyNotFound, releasev1alpha1.ReasonKeyInvalid))
	}
	if s.ValuesFrom != nil {
		gates = append(gates, kind.HeldFor("values", releasev1alpha1.ReasonValuesNotFound, releasev1alpha1.ReasonValuesInvalid))
	}
	return gates
}

// sourced is what the sources of an object contain.
type sourced struct {
	keys     map[string]string
	values   map[string]any
	blockers []Blocker
	// version identifies the content without being derived from it.
	version string
	// secrets are the texts from Secrets. secretsUnknown says that one could not be parsed.
	secrets        []string
	secretsUnknown bool
}

// redactor removes what the sources have from Secrets, and further secrets, from messages.
func (s sourced) redactor(further []string) *redact.Redactor {
	if s.secretsUnknown {
		return redact.Withholding("a Secret of valuesFrom cannot be used")
	}
	return redact.New(append(further, s.secrets...))
}

// observe reads the sources of an object, which has a release of the chart. A result that comes with an
// error has the secrets that were read.
func (s Sources[T]) observe(ctx context.Context, owner values.Owner, object T, chart *chart.Chart) (sourced, error) {
	var keys []SecretKey
	var references []releasev1alpha1.ValuesReference
	var inline *runtime.RawExtension
	if s.Keys != nil {
		keys = s.Keys(object)
	}
	if s.ValuesFrom != nil {
		references, inline = s.ValuesFrom(object)
	}
	if s.Reader == nil {
		return sourced{}, nil
	}
	var used []values.Key
	for _, key := range keys {
		if key.From != nil {
			used = append(used, key.in(owner.Name.Namespace))
		}
	}
	for _, from := range references {
		used = append(used, values.KeyOf(owner.Name.Namespace, from))
	}
	s.Reader.Use(owner, used)
	found := sourced{keys: map[string]string{}}
	var errs []error
	for _, key := range keys {
		errs = append(errs, found.read(ctx, s.Reader, owner, key))
	}
	var names map[string]bool
	if len(references) > 0 && chart != nil {
		names = chart.ValueNames()
	}
	collected, err := s.Reader.Collect(ctx, owner, references, inline, names)
	found.values, found.secretsUnknown = collected.Values, collected.SecretsUnknown
	found.secrets = append(found.secrets, collected.Secrets...)
	for _, problem := range collected.Problems {
		found.blockers = append(found.blockers, Blocker{Reason: problem.Reason, Message: problem.Message, Stalled: problem.Stalled})
	}
	var version strings.Builder
	for _, key := range used {
		fmt.Fprintf(&version, "%q %q\n", key.Object, s.Reader.Version(key.Object))
	}
	found.version = version.String()
	return found, errors.Join(append(errs, err)...)
}

// read adds the text of a key, or the blocker without a key.
func (s *sourced) read(ctx context.Context, reader *values.Sources, owner values.Owner, key SecretKey) error {
	if key.From == nil {
		return nil
	}
	got, err := reader.Read(ctx, owner, key.in(owner.Name.Namespace))
	if err != nil {
		return fmt.Errorf("read %s: %w", key.Field, err)
	}
	if missing := key.check(got); missing != nil {
		s.blockers = append(s.blockers, *missing)
		return nil
	}
	s.keys[key.Field], s.secrets = got.Text, append(s.secrets, got.Text)
	return nil
}

// in returns the key in a namespace.
func (k SecretKey) in(namespace string) values.Key {
	return values.Key{Object: values.Object{Kind: releasev1alpha1.ValuesFromSecret, Name: cache.NewObjectName(namespace, k.From.Name)}, Key: k.From.Key}
}

// check returns a blocker if the key is unavailable or outside its limits. The message never shows the
// text.
func (k SecretKey) check(got values.Found) *Blocker {
	length, shortest, longest := utf8.RuneCountInString(got.Text), cmp.Or(k.MinLength, 1), cmp.Or(k.MaxLength, defaultKeyLength)
	switch {
	case got.NoObject:
		return &Blocker{
			Reason:  releasev1alpha1.ReasonSecretNotFound,
			Message: fmt.Sprintf("Secret %q, which is to hold key %q, does not exist in this namespace", k.From.Name, k.From.Key),
		}
	case got.NoKey:
		return &Blocker{Reason: releasev1alpha1.ReasonKeyNotFound, Message: fmt.Sprintf("Secret %q has no key %q", k.From.Name, k.From.Key)}
	case !utf8.ValidString(got.Text):
		return &Blocker{
			Reason: releasev1alpha1.ReasonKeyInvalid, Message: fmt.Sprintf("Key %q of Secret %q is not text (UTF-8)", k.From.Key, k.From.Name),
		}
	case length < shortest || length > longest:
		return &Blocker{
			Reason: releasev1alpha1.ReasonKeyInvalid,
			Message: fmt.Sprintf("Key %q of Secret %q has %d characters; it must have %d to %d",
				k.From.Key, k.From.Name, length, shortest, longest),
		}
	default:
		return nil
	}
}

// observeSources reads the sources of an object.
func (l *Loop[T, S]) observeSources(ctx context.Context, object T, chart *chart.Chart) (sourced, error) {
	return l.options.Sources.observe(ctx, l.owner(cache.MetaObjectToName(metav1.Object(object))), object, chart)
}

// owner is an object as the owner of sources.
func (l *Loop[T, S]) owner(key cache.ObjectName) values.Owner {
	return values.Owner{Queue: l.Queue(), Name: key}
}

// useSources applies what the sources contain to the desired state that the binding returned.
func (d *Desired) useSources(found sourced) {
	d.Blockers = append(found.blockers, d.Blockers...)
	if len(found.blockers) > 0 {
		d.Known, d.Variants = false, nil
	}
}

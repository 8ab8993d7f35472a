// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	releasev1alpha1 "github.com/example/demoapp-controller/pkg/apis/release/v1alpha1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/controllertest"
	"github.com/example/demoapp-controller/test/expect"
)

var (
	owner         = Owner{Name: cache.NewObjectName("ns", "a")}
	fromConfigMap = releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "base"}
	fromSecret    = releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromSecret, Name: "private", Key: "more"}
)

// world has Sources of a ConfigMap "base" and a Secret "private".
type world struct {
	t       *testing.T
	kube    *kubefake.Clientset
	calls   controllertest.Journal
	sources *Sources
	// secrets and configMaps are watched.
	secrets, configMaps *watched
}

// watched is a Watch that the test fills. Need returns err.
type watched struct {
	informer cache.SharedIndexInformer
	err      error
}

// Informer implements Watch.
func (w *watched) Informer() cache.SharedIndexInformer { return w.informer }

// Need implements Watch.
func (w *watched) Need(cache.ObjectName, controller.Enqueuer) error { return w.err }

func newWatched() *watched {
	return &watched{informer: cache.NewSharedIndexInformer(&cache.ListWatch{}, &metav1.PartialObjectMetadata{}, 0, cache.Indexers{})}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, kube: kubefake.NewClientset(), secrets: newWatched(), configMaps: newWatched()}
	controllertest.Stamp(w.kube)
	var err error
	w.sources, err = NewSources(Config{
		Secrets: w.kube.CoreV1(), ConfigMaps: w.kube.CoreV1(),
		SecretWatches: map[string]Watch{"": w.secrets}, ConfigMapWatches: map[string]Watch{"": w.configMaps},
	})
	expect.NoError(t, err)
	w.kube.PrependReactor("get", "*", w.calls.React)
	return w
}

// configMap replaces the ConfigMap "base".
func (w *world) configMap(data map[string]string) {
	w.t.Helper()
	configMaps := w.kube.CoreV1().ConfigMaps("ns")
	_ = configMaps.Delete(w.t.Context(), "base", metav1.DeleteOptions{}) // It may not exist.
	created, err := configMaps.Create(w.t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "base"}, Data: data, BinaryData: map[string][]byte{"binary": []byte("e: binary")},
	}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	expect.NoError(w.t, w.configMaps.informer.GetIndexer().Update(&metav1.PartialObjectMetadata{ObjectMeta: created.ObjectMeta}))
}

// secret replaces the Secret "private".
func (w *world) secret(text string) {
	w.t.Helper()
	secrets := w.kube.CoreV1().Secrets("ns")
	_ = secrets.Delete(w.t.Context(), "private", metav1.DeleteOptions{}) // It may not exist.
	created, err := secrets.Create(w.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "private"}, Data: map[string][]byte{"more": []byte(text)},
	}, metav1.CreateOptions{})
	expect.NoError(w.t, err)
	expect.NoError(w.t, w.secrets.informer.GetIndexer().Update(&metav1.PartialObjectMetadata{ObjectMeta: created.ObjectMeta}))
}

// collect reads the values of an owner, which uses exactly these references.
func (w *world) collect(owner Owner, inline string, references ...releasev1alpha1.ValuesReference) (Collected, error) {
	w.t.Helper()
	w.calls.Take()
	var keys []Key
	for _, reference := range references {
		keys = append(keys, KeyOf(owner.Name.Namespace, reference))
	}
	w.sources.Use(owner, keys)
	var raw *runtime.RawExtension
	if inline != "" {
		raw = &runtime.RawExtension{Raw: []byte(inline)}
	}
	return w.sources.Collect(w.t.Context(), owner, references, raw, nil)
}

// problems returns the reasons and messages of missing values.
func (w *world) problems(inline string, references ...releasev1alpha1.ValuesReference) []string {
	w.t.Helper()
	found, err := w.collect(owner, inline, references...)
	expect.NoError(w.t, err)
	var problems []string
	for _, problem := range found.Problems {
		problems = append(problems, fmt.Sprintf("%s %t %s", problem.Reason, problem.Stalled, problem.Message))
	}
	return problems
}

// TestCollect: later values override earlier ones, and an object is read only after it changed.
func TestCollect(t *testing.T) {
	w := newWorld(t)
	w.configMap(map[string]string{"values.yaml": "a: base\nb: base\nc: base"})
	w.secret("b: secret-of-b\nc: secret-of-c")
	binary := releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "base", Key: "binary"}
	read := func() Collected {
		t.Helper()
		found, err := w.collect(owner, `{"c": "own"}`, fromConfigMap, fromSecret, binary)
		expect.NoError(t, err)
		return found
	}

	found := read()

	expect.Equal(t, "values", map[string]any{"a": "base", "b": "secret-of-b", "c": "own", "e": "binary"}, found.Values)
	expect.Equal(t, "b is secret", true, slices.Contains(found.Secrets, "secret-of-b"))
	expect.Equal(t, "requests", []string{"get configmaps base", "get secrets private"}, w.calls.Take())
	read()
	expect.Equal(t, "requests without a change", []string(nil), w.calls.Take())
	w.configMap(map[string]string{"values.yaml": "a: new"})
	expect.Equal(t, "a after a change", any("new"), read().Values["a"])
	expect.Equal(t, "requests after a change", []string{"get configmaps base"}, w.calls.Take())
	_, err := w.collect(owner, "")
	expect.NoError(t, err)
	expect.Equal(t, "cached bytes without users", 0, w.sources.Kept())
}

func TestCollectProblems(t *testing.T) {
	w := newWorld(t)
	optional := fromConfigMap
	optional.Optional = true
	expect.Equal(t, "no object", []string{`ValuesNotFound false valuesFrom[0]: ConfigMap "base", which is to hold key "values.yaml", does not exist in this namespace`},
		w.problems("", fromConfigMap))
	w.configMap(nil)
	expect.Equal(t, "no key", []string{`ValuesNotFound false valuesFrom[0]: ConfigMap "base" has no key "values.yaml"`}, w.problems("", fromConfigMap))
	expect.Equal(t, "no key of an optional reference", []string(nil), w.problems("", optional))
	expect.Equal(t, "inline", []string{"ValuesInvalid true spec.values: it is not an object (key: value)"}, w.problems("[1]"))
	w.secret("password: &hidden-secret hunter22\nagain: *hidden-secret")
	expect.Equal(t, "anchor in a Secret", []string{`ValuesInvalid true valuesFrom[0]: Key "more" of Secret "private" cannot be used: ` +
		`line 1 has an anchor (&) or an alias (*), which are not supported; write the value in full, or quote it if it is a text`}, w.problems("", fromSecret))
	found, err := w.collect(owner, "", fromSecret)
	expect.NoError(t, err)
	expect.Equal(t, "SecretsUnknown", true, found.SecretsUnknown)
}

// TestCollectWithoutWatch: an owner waits for a watch that is not synced, and reports a failed
// watch.
func TestCollectWithoutWatch(t *testing.T) {
	w := newWorld(t)
	w.secret("b: secret-of-b")
	w.configMaps.err = controller.ErrNotSynced
	found, err := w.collect(owner, "", fromConfigMap, fromSecret)
	if !errors.Is(err, controller.ErrNotSynced) {
		t.Errorf("error is %v", err)
	}
	expect.Equal(t, "the Secret behind it is redacted", true, slices.Contains(found.Secrets, "secret-of-b"))

	w.configMaps.err = &controller.UnfilledError{Failure: errors.New("no rule allows it")}
	problems := w.problems("", fromConfigMap)
	expect.Equal(t, "number of problems", 1, len(problems))
	expect.Contains(t, "problem", problems[0], apimeta.ReasonObserveFailed+" false valuesFrom[0]: ConfigMaps cannot be watched: ", "no rule allows it")
}

// TestLimitsHoldOverAllSources: each source is within the limits, but the first that
// exceeds them in total is refused.
func TestLimitsHoldOverAllSources(t *testing.T) {
	tests := map[string]struct{ text, says string }{
		"bytes": {"a: " + strings.Repeat("x", 400_000), "it has 400003 bytes, and all values of one resource together may have 1048576, of which 248570 are left; make the values smaller"},
		"nodes": {"a: [" + strings.Repeat("0,", 8_000) + "0]", "it has 8004 keys, scalars, lists and objects, and all values of one resource together may have 20000, of which 3992 are left; make the values smaller"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			data, references := map[string]string{}, []releasev1alpha1.ValuesReference{}
			for i := range 3 {
				key := fmt.Sprintf("k%d", i)
				data[key] = test.text
				references = append(references, releasev1alpha1.ValuesReference{Kind: releasev1alpha1.ValuesFromConfigMap, Name: "base", Key: key})
			}
			w.configMap(data)
			expect.Equal(t, "problems", []string{`ValuesInvalid true valuesFrom[2]: Key "k2" of ConfigMap "base" cannot be used: ` + test.says}, w.problems("", references...))
			expect.Equal(t, "problems of two sources", []string(nil), w.problems("", references[:2]...))
		})
	}
}

// TestSourcesCacheIsLimited: the largest objects are read again each time, and small
// ones stay cached.
func TestSourcesCacheIsLimited(t *testing.T) {
	w := newWorld(t)
	w.sources.Limit = 1000
	w.configMap(map[string]string{"values.yaml": "a: " + strings.Repeat("x", 2000)})
	w.secret("b: small")
	big, small := Owner{Name: cache.NewObjectName("ns", "big")}, Owner{Name: cache.NewObjectName("ns", "small")}
	for _, want := range [][]string{{"get secrets private", "get configmaps base"}, {"get configmaps base"}} {
		var requests []string
		_, err := w.collect(small, "", fromSecret)
		expect.NoError(t, err)
		requests = append(requests, w.calls.Take()...)
		_, err = w.collect(big, "", fromConfigMap)
		expect.NoError(t, err)
		expect.Equal(t, "requests", want, append(requests, w.calls.Take()...))
		expect.Equal(t, "cached bytes", len("b: small"), w.sources.Kept())
	}
	w.sources.Use(small, nil)
	w.sources.Use(big, nil)
	expect.Equal(t, "cached bytes in the end", 0, w.sources.Kept())
}

// queue records the enqueued keys.
type queue struct{ keys []string }

// Enqueue implements controller.Enqueuer.
func (q *queue) Enqueue(key cache.ObjectName, _ controller.Reason) { q.keys = append(q.keys, key.Name) }

// TestChangeEnqueuesReaders: owners of two kinds may have one name.
func TestChangeEnqueuesReaders(t *testing.T) {
	w := newWorld(t)
	shops, caches := &queue{}, &queue{}
	name := cache.NewObjectName("ns", "a")
	secret, configMap := KeyOf("ns", fromSecret), KeyOf("ns", fromConfigMap)
	w.sources.Use(Owner{shops, name}, []Key{secret, configMap})
	w.sources.Use(Owner{caches, name}, []Key{secret})
	w.sources.Use(Owner{caches, name}, []Key{secret, {secret.Object, "other"}})

	readers{w.sources, releasev1alpha1.ValuesFromSecret}.Enqueue(secret.Name, controller.SpecChange)
	readers{w.sources, releasev1alpha1.ValuesFromConfigMap}.Enqueue(configMap.Name, controller.SpecChange)

	expect.Equal(t, "readers of one kind", []string{"a", "a"}, shops.keys)
	expect.Equal(t, "readers of the other kind", []string{"a"}, caches.keys)
	w.sources.Use(Owner{caches, name}, nil)
	readers{w.sources, releasev1alpha1.ValuesFromSecret}.Enqueue(secret.Name, controller.SpecChange)
	expect.Equal(t, "without its keys", []string{"a"}, caches.keys)
}

func TestCheckFields(t *testing.T) {
	fields := func(size int) func(func(string, []byte) bool) {
		return func(yield func(string, []byte) bool) {
			_ = yield("small", []byte(`{"a": 1}`)) && yield("large", []byte(`"`+strings.Repeat("x", size)+`"`))
		}
	}
	expect.NoError(t, CheckFields(fields(1000)))
	err := CheckFields(fields(2 << 20))
	expect.Contains(t, "error", fmt.Sprint(err), "large: it has ")
}

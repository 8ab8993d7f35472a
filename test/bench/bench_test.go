// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestParseLoads(t *testing.T) {
	got, err := parseLoads("200x5,1000,website=20x2")
	if want := []load{{demoApp, 200, 5}, {demoApp, 1000, 1}, {"website", 20, 2}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and error %v, want %v", got, err, want)
	}
	for _, text := range []string{"", "many", "200x", "200x0", "-1", "=20", "../website=20"} {
		if _, err := parseLoads(text); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

func recorded(method, path, body string) write {
	return write{Method: method, Path: "/api/v1/namespaces/bench/" + path, Body: []byte(body)}.forAny()
}

func TestLeastWritesHasEachWriteOnceAndTwoStatuses(t *testing.T) {
	var got []string
	for _, w := range leastWrites([]write{
		recorded("POST", "secrets", `{"metadata":{"name":"a"}}`), recorded("POST", "secrets", `{"metadata":{"name":"b"}}`),
		recorded("PUT", "secrets/a", `1`), recorded("PATCH", "services/a", `1`), recorded("PATCH", "x/a/status", `1`),
		recorded("PATCH", "services/a", `2`), recorded("PATCH", "x/a/status", `2`), recorded("PATCH", "x/a/status", `3`),
	}) {
		got = append(got, strings.TrimPrefix(w.Target, "/api/v1/namespaces/bench/")+":"+string(w.Body[0]))
	}
	if want := []string{"secrets/a:{", "secrets/b:{", "secrets/a:1", "services/a:1", "x/a/status:1", "x/a/status:3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWriteForAnotherCustomResource shows that the lengths within a serialization as protobuf stay
// correct.
func TestWriteForAnotherCustomResource(t *testing.T) {
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{
		Name: sampleName + "-db", UID: "u", ResourceVersion: "7", OwnerReferences: []metav1.OwnerReference{{UID: "old"}},
	}}
	for contentType := range map[string]bool{runtime.ContentTypeJSON: true, runtime.ContentTypeProtobuf: true} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
		body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), secret)
		if err != nil {
			t.Fatal(err)
		}
		w := write{Method: http.MethodPost, Path: "/secrets", ContentType: contentType, Body: body}.forAny()

		sent := w.as(appName(7), map[types.UID]types.UID{"old": "new"})

		var got corev1.Secret
		if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), sent.Body, &got); err != nil {
			t.Fatal(err)
		}
		if got.Name != "app-00007-db" || got.UID != "" || got.ResourceVersion != "" || got.OwnerReferences[0].UID != "new" {
			t.Errorf("%s: got %+v", contentType, got.ObjectMeta)
		}
		if w.Target != "/secrets/"+sampleName+"-db" {
			t.Errorf("%s: target is %s", contentType, w.Target)
		}
	}
}

// TestDeletionForAnotherCustomResource shows that a deletion keeps its options but for the
// preconditions, which hold for the sample only.
func TestDeletionForAnotherCustomResource(t *testing.T) {
	background := metav1.DeletePropagationBackground
	options := &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("u"), PropagationPolicy: &background}
	for contentType := range map[string]bool{runtime.ContentTypeJSON: true, runtime.ContentTypeProtobuf: true} {
		info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), contentType)
		body, err := runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), options)
		if err != nil {
			t.Fatal(err)
		}
		path := "/secrets/" + sampleName

		sent := write{Method: http.MethodDelete, Path: path, Query: "labelSelector=name%3D" + sampleName, ContentType: contentType, Body: body}.
			forAny().as(appName(7), nil)

		var got metav1.DeleteOptions
		if err := runtime.DecodeInto(scheme.Codecs.UniversalDeserializer(), sent.Body, &got); err != nil {
			t.Fatal(err)
		}
		if got.Preconditions != nil || got.PropagationPolicy == nil || *got.PropagationPolicy != background {
			t.Errorf("%s: got %+v", contentType, got)
		}
		if sent.Target != path || sent.Path != "/secrets/app-00007" || sent.Query != "labelSelector=name%3Dapp-00007" {
			t.Errorf("%s: sent to %s, %s?%s", contentType, sent.Target, sent.Path, sent.Query)
		}
	}
}

func TestDriftOfPrefersConfigMaps(t *testing.T) {
	service := recorded("PATCH", "services/a", `{"kind":"Service","spec":{"selector":{"app":"x"}}}`)
	config := recorded("PATCH", "configmaps/a", `{"kind":"ConfigMap","data":{"`+sampleName+`":"1","b":"2","c":"3"}}`)
	if target, field := driftOf([]write{service, config}); target != config.Target || !slices.Equal(field, []string{"data", "b"}) {
		t.Errorf("got %v of %s", field, target)
	}
	if target, field := driftOf([]write{service}); target != service.Target || !slices.Equal(field, []string{"spec", "selector", "app"}) {
		t.Errorf("got %v of %s", field, target)
	}
}

func TestIsReady(t *testing.T) {
	condition := func(name, status string, generation int64) any {
		return map[string]any{"type": name, "status": status, "observedGeneration": generation}
	}
	ready := condition("Ready", "True", 2)
	for name, test := range map[string]struct {
		conditions []any
		want       bool
	}{
		"ready": {[]any{ready}, true}, "release": {[]any{condition("Deployed", "True", 2), ready}, true}, "no status": {},
		"old spec ready":    {conditions: []any{condition("Ready", "True", 1)}},
		"old spec deployed": {conditions: []any{ready, condition("Deployed", "True", 1)}},
	} {
		custom := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": test.conditions}}}
		custom.SetGeneration(2)
		if got := isReady(custom); got != test.want {
			t.Errorf("%s: got %t", name, got)
		}
	}
}

func TestRatiosAreThoseOfTheSameRound(t *testing.T) {
	r := result{rounds: map[string][]round{floorName: times(1, 20, 3), operatorName: times(2, 40, 9)}}
	if got := cell(r.ratios(operatorName, floorName, figure{phase: installPhase, name: "time"}), 1, "s"); got != "2.0 s (2.0 to 3.0)" {
		t.Errorf("got %s", got)
	}
}

// times returns rounds whose installs took these seconds.
func times(seconds ...float64) (rounds []round) {
	for _, s := range seconds {
		rounds = append(rounds, round{{phase: installPhase, name: "time", value: s}})
	}
	return rounds
}

func TestCheckFloor(t *testing.T) {
	for name, test := range map[string]struct {
		floor, operator []round
		fails           bool
	}{
		"faster": {floor: times(1, 2), operator: times(2, 3)}, "slower in one round": {floor: times(1, 5, 1), operator: times(2, 3, 2)},
		"slower": {floor: times(3, 4), operator: times(2, 3), fails: true}, "no floor": {operator: times(2)},
	} {
		r := result{rounds: map[string][]round{floorName: test.floor, operatorName: test.operator}}
		if err := r.checkFloor(); (err != nil) != test.fails {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSumOf(t *testing.T) {
	const metrics = "a{method=\"GET\"} 1\na{method=\"PUT\"} 2\na{method=\"POST\"} 3e0\nab{method=\"PUT\"} 9\n"
	if got := sumOf(metrics, `a\{.*method="(?:POST|PUT)".*\}`); got != 5 {
		t.Errorf("got %v, want 5", got)
	}
}

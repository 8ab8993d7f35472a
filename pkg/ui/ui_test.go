// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package ui_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fakediscovery "k8s.io/client-go/discovery/fake"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/ui"
	"github.com/example/demoapp-controller/test/expect"
)

var (
	demoApps = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1alpha1", Resource: "demoapps"}
	websites = schema.GroupVersionResource{Group: "webapp.example.com", Version: "v1", Resource: "websites"}
)

// world is a running server with fake clients.
type world struct {
	dynamic *dynamicfake.FakeDynamicClient
	base    string
	token   string
}

// start starts a server with DemoApps and Websites. answer answers some requests in place of the
// API server; it may be nil.
func start(t *testing.T, answer clienttesting.ReactionFunc, objects ...runtime.Object) *world {
	t.Helper()
	return startWith(t, ui.Options{}, answer, objects...)
}

// startWith is start with options.
func startWith(t *testing.T, options ui.Options, answer clienttesting.ReactionFunc, objects ...runtime.Object) *world {
	t.Helper()
	kube := kubefake.NewClientset()
	discovery, ok := kube.Discovery().(*fakediscovery.FakeDiscovery)
	if !ok {
		t.Fatal("the clientset has another discovery client")
	}
	discovery.Resources = []*metav1.APIResourceList{
		{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true}, {Name: "pods", Kind: "Pod", Namespaced: true}}},
		{GroupVersion: "demo.example.com/v1alpha1", APIResources: []metav1.APIResource{
			{Name: "demoapps", Kind: "DemoApp", Namespaced: true, Categories: []string{apimeta.Category}},
		}},
		{GroupVersion: "webapp.example.com/v1", APIResources: []metav1.APIResource{
			{Name: "websites", Kind: "Website", Namespaced: true, Categories: []string{apimeta.Category}},
		}},
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	lists := map[schema.GroupVersionResource]string{}
	for _, list := range discovery.Resources {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		expect.NoError(t, err)
		for _, resource := range list.APIResources {
			named := version.WithResource(resource.Name)
			mapper.AddSpecific(version.WithKind(resource.Kind), named, named, meta.RESTScopeNamespace)
			lists[named] = resource.Kind + "List"
		}
	}
	metadataScheme := metadatafake.NewTestScheme()
	expect.NoError(t, metav1.AddMetaToScheme(metadataScheme))
	w := &world{dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, objects...)}
	if answer != nil {
		w.dynamic.PrependReactor("*", "*", answer)
	}
	cluster := inspect.New(inspect.Clients{
		Dynamic: w.dynamic, Kubernetes: kube, Metadata: metadatafake.NewSimpleMetadataClient(metadataScheme), Discovery: discovery, Mapper: mapper,
	}, types.NamespacedName{Namespace: "demoapp-system", Name: "demoapp-controller"})
	options.Cluster, options.Context, options.Now = cluster, "test", time.Now
	options.Kinds = map[schema.GroupKind]inspect.KindFunctions{{Group: "webapp.example.com", Kind: "Website"}: {Children: desiredSecret}}
	server := ui.New(options)
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	address, err := url.Parse(server.URL(listener.Addr()))
	expect.NoError(t, err)
	w.token = strings.TrimPrefix(address.Fragment, "token=")
	w.base = "http://" + address.Host
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		expect.NoError(t, <-ended)
	})
	return w
}

// desiredSecret returns the desired children of a Website in these tests.
func desiredSecret(owner *unstructured.Unstructured, _ inspect.ChildrenInput) ([]child.Rendered, error) {
	return []child.Rendered{{Object: secret(owner.GetName(), "bmV3LXBhc3N3b3Jk")}}, nil
}

func secret(name, data string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"namespace": "shop", "name": name}, "data": map[string]any{"password": data},
	}}
}

// object returns a ready object with a message.
func object(kind schema.GroupVersionKind, name, message string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": name, "uid": "uid-" + name},
		"status":   map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Healthy", "message": message}}},
	}}
	o.SetGroupVersionKind(kind)
	return o
}

func demoApp(name, message string) *unstructured.Unstructured {
	return object(demoApps.GroupVersion().WithKind("DemoApp"), name, message)
}

func website(name string) *unstructured.Unstructured {
	return object(websites.GroupVersion().WithKind("Website"), name, "fine")
}

// answer is the answer to a request. The end of the test closes the body.
type answer struct {
	StatusCode int
	Header     http.Header
	Body       io.Reader
}

// do sends a request. change may change it before.
func (w *world) do(t *testing.T, method, path string, change func(*http.Request)) answer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, w.base+path, http.NoBody)
	expect.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+w.token)
	if change != nil {
		change(request)
	}
	response, err := http.DefaultClient.Do(request)
	expect.NoError(t, err)
	t.Cleanup(func() { response.Body.Close() })
	return answer{response.StatusCode, response.Header, response.Body}
}

func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	tests := []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"the page needs no token", "GET", "/", header("Authorization", ""), 200},
		{"no token", "GET", "/api/apps", header("Authorization", ""), 401},
		{"another token", "GET", "/api/apps", header("Authorization", "Bearer "+strings.Repeat("A", 26)), 401},
		{"the token in another scheme", "GET", "/api/apps", header("Authorization", "Basic x"), 401},
		{"the token in the query", "GET", "/api/apps?token=" + w.token, header("Authorization", ""), 401},
		{"a name that points to loopback", "GET", "/api/apps", host("attacker.example.com"), 403},
		{"the page by such a name", "GET", "/", host("attacker.example.com"), 403},
		{"a name that begins like loopback", "GET", "/", host("127.0.0.1.attacker.example.com"), 403},
		{"the port of a forwarding", "GET", "/", host("localhost:8001"), 200},
		{"IPv6", "GET", "/", host("[::1]:8001"), 200},
		{"an unknown path", "GET", "/api/secrets", nil, 404},
		{"a write", "POST", "/api/apps", nil, 405},
		{"a read of another origin's page, by its preflight", "OPTIONS", "/api/apps", header("Authorization", ""), 405},
		{"a read of another origin", "GET", "/api/app?id=DemoApp.demo.example.com/shop/none", header("Origin", "http://attacker.example.com"), 403},
		{"a read of another site", "GET", "/api/app?id=DemoApp.demo.example.com/shop/none", header("Sec-Fetch-Site", "cross-site"), 403},
		{"a write of the page", "POST", "/", nil, 405},
		{"no id", "GET", "/api/app", nil, 400},
		{"an unknown kind", "GET", "/api/app?id=Sandwich.example.com/shop/web", nil, 404},
		{"an unknown object", "GET", "/api/drift?id=DemoApp.demo.example.com/shop/none", nil, 404},
		{"a file outside of the page", "GET", "/..%2fserver.go", nil, 404},
		{"revisions without numbers", "GET", "/api/revisions?id=DemoApp.demo.example.com/shop/web", nil, 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			response := w.do(t, test.method, test.path, test.change)

			expect.Equal(t, "code", test.want, response.StatusCode)
			if response.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Error("the answer allows another origin")
			}
		})
	}
}

// TestHeaders: all answers, errors included, have the headers that confine the page.
func TestHeaders(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for _, path := range []string{"/", "/main.js", "/api/apps", "/api/app"} {
		response := w.do(t, http.MethodGet, path, nil)

		policy := response.Header.Get("Content-Security-Policy")
		for _, rule := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"} {
			expect.Contains(t, path, policy, rule)
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy allows inline code: %s", path, policy)
		}
		expect.Equal(t, path, "nosniff", response.Header.Get("X-Content-Type-Options"))
		expect.Equal(t, path, "no-referrer", response.Header.Get("Referrer-Policy"))
		expect.Equal(t, path, "no-store", response.Header.Get("Cache-Control"))
	}
}

// event is a server-sent event.
type event struct {
	name, id string
	data     map[string]any
}

// events reads the events of a stream.
func events(t *testing.T, response answer) func() event {
	t.Helper()
	expect.Equal(t, "content type", "text/event-stream", response.Header.Get("Content-Type"))
	lines := bufio.NewReader(response.Body)
	return func() (found event) {
		for {
			line, err := lines.ReadString('\n')
			expect.NoError(t, err)
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch field {
			case "id":
				found.id = value
			case "event":
				found.name = value
			case "data":
				expect.NoError(t, json.Unmarshal([]byte(value), &found.data))
			case "":
				if found.data != nil {
					return found
				}
			}
		}
	}
}

// until reads events until one satisfies a condition.
func until(next func() event, holds func(event) bool) event {
	for {
		if e := next(); holds(e) {
			return e
		}
	}
}

// names returns the names and messages of the objects of an event.
func names(e event) map[string]string {
	found := map[string]string{}
	apps, _ := e.data["apps"].([]any)
	for _, app := range apps {
		fields, _ := app.(map[string]any)
		found[fmt.Sprint(fields["name"])] = fmt.Sprint(fields["message"])
	}
	return found
}

func TestStreamOfAllObjects(t *testing.T) {
	t.Parallel()
	w := start(t, nil, demoApp("web", "first"), website("site"))
	next := events(t, w.do(t, http.MethodGet, "/api/apps", nil))
	seen := map[string]string{}
	collect := func(e event) bool {
		for name, message := range names(e) {
			seen[name] = message
		}
		return len(seen) == 2
	}

	until(next, collect)

	_, err := w.dynamic.Resource(demoApps).Namespace("shop").Update(t.Context(), demoApp("web", "second"), metav1.UpdateOptions{})
	expect.NoError(t, err)
	changed := until(next, func(e event) bool { return len(names(e)) > 0 })
	expect.Equal(t, "changed objects", map[string]string{"web": "second"}, names(changed))

	expect.NoError(t, w.dynamic.Resource(websites).Namespace("shop").Delete(t.Context(), "site", metav1.DeleteOptions{}))
	removed := until(next, func(e event) bool { return e.data["removed"] != nil })
	expect.Equal(t, "removed objects", []any{"Website.webapp.example.com/shop/site"}, removed.data["removed"])

	// A browser that lost the connection gets only the missed messages.
	again := events(t, w.do(t, http.MethodGet, "/api/apps", func(r *http.Request) { r.Header.Set("Last-Event-ID", changed.id) }))
	missed := again()
	expect.Equal(t, "objects after the last event", map[string]string{}, names(missed))
	expect.Equal(t, "removed objects after the last event", []any{"Website.webapp.example.com/shop/site"}, missed.data["removed"])
}

// TestStreamIsBatched: many objects come in messages of limited size, and only the last has an id.
func TestStreamIsBatched(t *testing.T) {
	t.Parallel()
	var objects []runtime.Object
	for i := range 1200 {
		objects = append(objects, demoApp(fmt.Sprintf("app-%04d", i), "fine"))
	}
	w := start(t, nil, objects...)
	next := events(t, w.do(t, http.MethodGet, "/api/apps", nil))
	total := 0

	until(next, func(e event) bool {
		count := len(names(e))
		if count > 500 {
			t.Errorf("a message has %d objects", count)
		}
		total += count
		if last := e.data["last"] == true; last != (e.id != "") {
			t.Errorf("last=%t with id %q", last, e.id)
		}
		return total == 1200 && e.id != ""
	})
}

// TestMissingPermission: a kind that may not be listed is named with the API server's text, and the
// remaining kinds are shown.
func TestMissingPermission(t *testing.T) {
	t.Parallel()
	w := start(t, func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.Matches("list", "websites"), nil, apierrors.NewForbidden(websites.GroupResource(), "", fmt.Errorf("user cannot list"))
	}, demoApp("web", "fine"))
	next := events(t, w.do(t, http.MethodGet, "/api/apps", nil))
	hasApp, hasError := false, false

	until(next, func(e event) bool {
		hasApp = hasApp || names(e)["web"] != ""
		kinds, _ := e.data["kinds"].([]any)
		for _, kind := range kinds {
			fields, _ := kind.(map[string]any)
			text, _ := fields["error"].(string)
			hasError = hasError || fields["word"] == "Website" && strings.Contains(text, "websites.webapp.example.com is forbidden")
		}
		return hasApp && hasError
	})
}

func TestStreamOfOneObject(t *testing.T) {
	t.Parallel()
	w := start(t, nil, demoApp("web", "a\u202eb\x1b"))
	next := events(t, w.do(t, http.MethodGet, "/api/app?id=DemoApp.demo.example.com/shop/web", nil))

	first := next()

	expect.Equal(t, "event", "app", first.name)
	app, _ := first.data["app"].(map[string]any)
	expect.Equal(t, "message without control characters", any("a\ufffdb\ufffd"), app["message"])
	expect.NoError(t, w.dynamic.Resource(demoApps).Namespace("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	gone := until(next, func(e event) bool { return e.name == "failed" })
	expect.Contains(t, "error", fmt.Sprint(gone.data["error"]), `"web" not found`)
}

// TestDriftIsMasked: a comparison says that a secret differs, and does not show it.
func TestDriftIsMasked(t *testing.T) {
	t.Parallel()
	w := start(t, func(action clienttesting.Action) (bool, runtime.Object, error) {
		return action.Matches("patch", "secrets"), secret("site", "bmV3LXBhc3N3b3Jk"), nil
	}, website("site"), secret("site", "b2xkLXBhc3N3b3Jk"))

	response := w.do(t, http.MethodGet, "/api/drift?id=Website.webapp.example.com/shop/site", nil)

	content, err := io.ReadAll(response.Body)
	expect.NoError(t, err)
	expect.Contains(t, "comparison", string(content), "Secret/site", "*** (before)", "*** (after)")
	for _, text := range []string{"b2xk", "bmV3", "old-password", "new-password"} {
		if strings.Contains(string(content), text) {
			t.Errorf("the comparison has %q: %s", text, content)
		}
	}
}

// TestActions: the page writes only with --write, with the token, and from its own origin.
func TestActions(t *testing.T) {
	t.Parallel()
	const path = "/api/action?id=DemoApp.demo.example.com/shop/web"
	tests := []struct {
		name, body, site string
		readOnly         bool
		want             int
		paused           string
	}{
		{name: "suspend", body: `{"action":"suspend","reason":"audit"}`, want: 200, paused: "true"},
		{name: "read-only", body: `{"action":"suspend"}`, readOnly: true, want: 405},
		{name: "of another origin", body: `{"action":"suspend"}`, site: "cross-site", want: 403},
		{name: "of another port of the host", body: `{"action":"suspend"}`, site: "same-site", want: 403},
		{name: "an unknown action", body: `{"action":"delete"}`, want: 400},
		{name: "an unknown field", body: `{"action":"suspend","dryRun":"x"}`, want: 400},
		{name: "too large", body: `{"action":"suspend","reason":"` + strings.Repeat("a", 5000) + `"}`, want: 400},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := startWith(t, ui.Options{Write: !test.readOnly}, nil, demoApp("web", "fine"))

			response := w.do(t, http.MethodPost, path, func(r *http.Request) {
				r.Body = io.NopCloser(strings.NewReader(test.body))
				if test.site != "" {
					r.Header.Set("Sec-Fetch-Site", test.site)
				}
			})

			expect.Equal(t, "code", test.want, response.StatusCode)
			live, err := w.dynamic.Resource(demoApps).Namespace("shop").Get(t.Context(), "web", metav1.GetOptions{})
			expect.NoError(t, err)
			expect.Equal(t, "annotation", test.paused, live.GetAnnotations()[apimeta.AnnotationPaused])
		})
	}
}

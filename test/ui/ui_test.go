// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ui

import (
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// views are the views of the page, and the texts that each shows for the objects of testdata.
var views = []struct {
	name, hash, selector string
	texts                []string
}{
	{"list", "#/", ".rows", []string{"web", "checkout", "Suspended", "Drifted", "demo-app@0.1.0"}},
	{"why", "#/app/EcommercePlatform.platform.example.com/shop/store", "#panel", []string{
		"Cause", "PersistentVolumeClaim/data-store-db-0", "kubectl describe persistentvolumeclaim", "PostgreSQL/store-db", "Conditions",
	}},
	{"drift", "#/app/DemoApp.demo.example.com/shop/catalog/drift", "#panel", []string{"Deployment/catalog", "replicas: 4", "replicas: 1", "is set by kubectl-edit"}},
	{"revisions", "#/app/DemoApp.demo.example.com/shop/web/revisions", "#panel", []string{"Revision 2", "Deployed", "values.message", "Compare with revision 1"}},
	{"events", "#/app/DemoApp.demo.example.com/shop/web/events", "#panel", []string{"Installed", "Deployment/web"}},
}

// TestViews: each view loads, passes axe in light and dark, on a screen and on a phone, and fits
// the width of a phone. With UI_PICTURES, it draws the pictures of the documentation.
func TestViews(t *testing.T) {
	b := openBrowser(t, startPage(t)).withoutErrors(t)
	folder := os.Getenv("UI_PICTURES")
	for _, view := range views {
		b.open(t, view.hash)
		b.sees(t, view.selector, view.texts...)
		for _, look := range []struct {
			name          string
			width, height int64
			scheme        string
		}{{"", 1280, 800, "light"}, {"-dark", 1280, 800, "dark"}, {"-phone", 390, 844, "light"}, {"-phone-dark", 390, 844, "dark"}} {
			b.look(t, look.width, look.height, look.scheme)
			b.passesAxe(t, view.name+look.name)
			if over := evaluate[int](t, b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); over > 0 {
				t.Errorf("%s%s is %d pixels too wide", view.name, look.name, over)
			}
			if folder != "" && pictures[view.name+look.name] {
				b.picture(t, folder, "ui-"+view.name+look.name)
			}
		}
	}
}

// pictures are the views in the documentation.
var pictures = map[string]bool{"list": true, "list-phone": true, "why": true, "why-dark": true, "drift": true, "revisions": true}

// TestLive: a change on the API server shows on the list and on the page of an object, without a
// reload.
func TestLive(t *testing.T) {
	b := openBrowser(t, startPage(t)).withoutErrors(t)
	b.sees(t, ".rows", "checkout")
	fresh := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "demo.example.com/v1alpha1", "kind": "DemoApp", "metadata": map[string]any{"name": "fresh"}, "spec": map[string]any{"apiKey": "key-of-an-app"},
	}}
	if err := shared.ApplyObject(t.Context(), "shop", fresh); err != nil {
		t.Fatal(err)
	}

	b.holds(t, `document.querySelector('[data-key$="/shop/fresh"] [data-tone="ready"]') !== null`)

	b.open(t, "#/app/DemoApp.demo.example.com/shop/fresh")
	b.sees(t, "#panel", "Deployment/fresh")
	change(t, demoApps, "fresh", `{"spec":{"message":"second"}}`)
	b.sees(t, ".facts", "revision 2")
	b.press(t, "3")
	b.sees(t, "#panel", "Revision 2")

	if err := shared.Dynamic.Resource(demoApps).Namespace("shop").Delete(t.Context(), "fresh", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.sees(t, ".notice", "not found")
	b.press(t, "u")
	b.holds(t, `document.querySelector('.rows') !== null && document.querySelector('[data-key$="/shop/fresh"]') === null`)
}

// TestWrite: with --write, the page suspends an object with a reason and resumes it; without, it
// offers neither.
func TestWrite(t *testing.T) {
	const hash = "#/app/DemoApp.demo.example.com/shop/web"
	reader := openBrowser(t, startPage(t)).withoutErrors(t)
	reader.open(t, hash)
	reader.sees(t, "#panel", "Deployment/web")
	reader.holds(t, "document.querySelectorAll('.actions button').length === 0")

	b := openBrowser(t, startPage(t, "--write")).withoutErrors(t)
	b.open(t, hash)
	b.sees(t, ".actions", "Suspend")
	b.passesAxe(t, "actions")
	b.click(t, ".actions [data-key=suspend]")
	b.holds(t, "document.getElementById('reason') !== null")
	b.passesAxe(t, "question for a reason")
	evaluate[bool](t, b, "document.getElementById('reason').focus(), true")
	b.press(t, "maintenance\r")

	await(t, "web", "suspended", func(s inspect.Summary) bool { return s.Suspended })
	b.sees(t, ".actions", "Resume")
	b.click(t, ".actions [data-key=resume]")
	await(t, "web", "resumed", func(s inspect.Summary) bool { return !s.Suspended })
}

// TestKeyboard: the list and an object's page work without a mouse, and the filters come back.
func TestKeyboard(t *testing.T) {
	b := openBrowser(t, startPage(t)).withoutErrors(t)
	b.sees(t, ".rows", "checkout")

	b.press(t, "n")
	b.holds(t, `location.hash === '#/?state=notready' && !document.querySelector('.rows').innerText.includes('checkout')`)
	b.search(t)
	b.press(t, "invoices\x1b")
	b.sees(t, ".count", "1 of")
	b.press(t, "j")
	b.press(t, "\r")
	b.sees(t, "h1", "invoices")
	b.sees(t, "#panel", "Secret/invoices-key")
	b.press(t, "4")
	b.holds(t, `document.querySelector('[aria-selected="true"]').innerText === 'Events'`)
	b.press(t, "\x1b")
	b.holds(t, `location.hash === '#/?state=notready&q=invoices'`)
	b.press(t, "?")
	b.holds(t, "document.getElementById('help').open")
	b.passesAxe(t, "help")
}

// TestThousandObjects: the page draws only a part of many objects, the search finds all of them,
// and the scroll draws more.
func TestThousandObjects(t *testing.T) {
	const count = 1000
	suspended := func(i int) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "webapp.example.com/v1", "kind": "Website", "metadata": map[string]any{
				"name": fmt.Sprintf("site-%04d", i), "annotations": map[string]any{"demo.example.com/paused": "true"},
			}, "spec": map[string]any{"html": "many"},
		}}
	}
	namespace := shared.Namespace(t)
	b := openBrowser(t, startPage(t, "--namespace", namespace)).withoutErrors(t)
	for i := range count {
		if err := shared.ApplyObject(t.Context(), namespace, suspended(i)); err != nil {
			t.Fatal(err)
		}
	}

	b.sees(t, ".count", "1,000 objects")
	if drawn := evaluate[int](t, b, "document.querySelectorAll('.rows li').length"); drawn > 200 {
		t.Errorf("the page draws %d rows at once", drawn)
	}
	evaluate[bool](t, b, "window.scrollTo(0, document.body.scrollHeight), true")
	b.holds(t, "document.querySelectorAll('.rows li').length > 150")
	b.search(t)
	b.press(t, "site-0999")
	b.sees(t, ".count", "1 of 1,000")
	b.sees(t, ".rows", "site-0999")
}

// TestWithoutToken: the page without the token shows no object, and says what to do.
func TestWithoutToken(t *testing.T) {
	url := startPage(t)

	b := openBrowser(t, url[:len(url)-10])

	b.sees(t, ".notice", "open the URL that kubectl demoapp ui printed")
	b.holds(t, "document.querySelectorAll('.rows li').length === 0")
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package ui

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/example/demoapp-controller/test/cluster"
)

// browser is a tab of a headless Chromium.
type browser struct {
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// openBrowser opens a page.
func openBrowser(t *testing.T, url string) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath("chromium"))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	b := &browser{ctx: ctx}
	do(t, b, log.Enable, cdp.Empty{})
	b.look(t, 1280, 800, "light")
	b.run(t, chromedp.Navigate(url))
	return b
}

// withoutErrors fails the test at its end if the page had an error. A violation of the
// Content-Security-Policy is one.
func (b *browser) withoutErrors(t *testing.T) *browser {
	t.Helper()
	exceptions, entries := chromedp.Events(b.ctx, runtime.ExceptionThrown), chromedp.Events(b.ctx, log.EntryAdded)
	go func() {
		for event, err := range exceptions {
			if err == nil {
				b.note(fmt.Sprintf("%s %+v", event.ExceptionDetails.Text, event.ExceptionDetails.Exception))
			}
		}
	}()
	go func() {
		for event, err := range entries {
			if err == nil && event.Entry.Level == log.EntryLevelError {
				b.note(event.Entry.Text)
			}
		}
	}()
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.errors) > 0 {
			t.Errorf("the page has errors: %q", b.errors)
		}
	})
	return b
}

func (b *browser) note(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.errors = append(b.errors, text)
}

// do runs a command of the browser.
func do[P, R any](t *testing.T, b *browser, command cdp.Command[P, R], params P) {
	t.Helper()
	if _, err := chromedp.Call(b.ctx, command, params); err != nil {
		t.Fatal(err)
	}
}

func (b *browser) run(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// press presses keys, one after the other.
func (b *browser) press(t *testing.T, keys string) {
	t.Helper()
	b.run(t, chromedp.KeyEvent(keys))
}

// click clicks on the element of a selector.
func (b *browser) click(t *testing.T, selector string) {
	t.Helper()
	b.holds(t, fmt.Sprintf("document.querySelector(%q) !== null", selector))
	evaluate[bool](t, b, fmt.Sprintf("document.querySelector(%q).click(), true", selector))
}

// search presses the key of the search. The browser's protocol types the key although the page
// handles it, which a keyboard does not.
func (b *browser) search(t *testing.T) {
	t.Helper()
	b.press(t, "/")
	b.holds(t, "document.activeElement.id === 'search'")
	evaluate[string](t, b, "document.activeElement.value = ''")
}

// open shows a view of the page.
func (b *browser) open(t *testing.T, hash string) {
	t.Helper()
	evaluate[string](t, b, fmt.Sprintf("location.hash = %q", hash))
}

// sees waits until the element of a selector has all texts.
func (b *browser) sees(t *testing.T, selector string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		b.holds(t, fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))", selector, text))
	}
}

// holds waits until an expression is true.
func (b *browser) holds(t *testing.T, expression string) {
	t.Helper()
	cluster.Eventually(b.ctx, t, expression, func(ctx context.Context) (bool, error) {
		isTrue, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && !isTrue {
			var text string
			text, err = chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
			err = cmp.Or(err, fmt.Errorf("the page says: %s", text))
		}
		return isTrue, err
	})
}

// evaluate returns the value of an expression, which may be a promise.
func evaluate[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	wait := true
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, func(p *runtime.EvaluateParams) { p.AwaitPromise = &wait }))
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// look sets the size and the color scheme of the screen.
func (b *browser) look(t *testing.T, width, height int64, scheme string) {
	t.Helper()
	b.run(t, chromedp.EmulateViewport(width, height))
	do(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme},
			// A color in transition has another contrast.
			{Name: "prefers-reduced-motion", Value: "reduce"},
		},
	})
}

// picture draws the page into a folder.
func (b *browser) picture(t *testing.T, folder, name string) {
	t.Helper()
	evaluate[bool](t, b, "window.scrollTo(0, 0), document.activeElement.blur(), true")
	content, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), content, 0o644); err != nil {
		t.Fatal(err)
	}
}

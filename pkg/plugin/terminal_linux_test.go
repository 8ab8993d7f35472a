// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin_test

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/test/expect"
)

// openTerminal returns both ends of a pseudo-terminal with a number of columns.
func openTerminal(t *testing.T, columns uint16) (controller, terminal *os.File) {
	t.Helper()
	controller, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = controller.Close() })
	fd := int(controller.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	expect.NoError(t, err)
	expect.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	expect.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}))
	return controller, terminal
}

// onTerminal runs the plugin in a terminal of 80 columns and returns its output.
func (w *releaseWorld) onTerminal(t *testing.T, args ...string) string {
	t.Helper()
	controller, terminal := openTerminal(t, 80)
	printed := make(chan string)
	go func() {
		var text strings.Builder
		_, _ = io.Copy(&text, controller) // The end of a terminal is an error.
		printed <- text.String()
	}()
	w.execute(t, genericiooptions.IOStreams{In: strings.NewReader(""), Out: terminal, ErrOut: io.Discard}, args...)
	expect.NoError(t, terminal.Close())
	return strings.ReplaceAll(<-printed, "\r\n", "\n")
}

// newWideWorld has objects whose names and messages are longer than a line.
func newWideWorld(t *testing.T) *releaseWorld {
	t.Helper()
	w := newReleaseWorld(t)
	w.Serve(schema.GroupVersionResource{Version: "v1", Resource: "events"}, "Event", true)
	long := strings.Repeat("a-very-long-name-", 4) + "x"
	w.create(t, `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {namespace: shop, name: `+long+`, uid: wide, creationTimestamp: "1970-01-01T01:00:00Z"}
spec: {message: b}
status:
  conditions:
  - {type: Ready, status: "False", reason: UpgradeFailedForAReasonWithALongName, lastTransitionTime: "1970-01-01T01:00:00Z",
     message: "`+strings.Repeat("a long message ", 20)+strings.Repeat("x", 200)+`"}
  - {type: Stalled, status: "True", reason: UpgradeFailed, lastTransitionTime: "1970-01-01T01:00:00Z", message: "`+strings.Repeat("text ", 40)+`"}
  deployedRelease: {name: web, revision: 2, chart: demo-app, chartVersion: 0.1.0-with-a-long-suffix-0123456789}
  inventory: [{apiVersion: v1, kind: ConfigMap, namespace: shop, name: `+long+`, uid: gone}]
  history: [{time: "1970-01-01T00:33:20Z", action: Upgrade, outcome: Succeeded, revision: 2, reason: SpecGenerationChanged, changed: [`+strings.Repeat("values.message, ", 10)+`x]}]
`)
	w.create(t, `{apiVersion: v1, kind: Event, metadata: {namespace: shop, name: e}, type: Warning, reason: Failed, message: "`+strings.Repeat("long ", 40)+`",
		lastTimestamp: "1970-01-01T01:00:00Z", involvedObject: {apiVersion: demo.example.com/v1alpha1, kind: DemoApp, namespace: shop, name: `+long+
		`, uid: "`+string(w.Object("DemoApp", "shop/"+long).GetUID())+`"}}`)
	return w
}

var escape = regexp.MustCompile("\x1b\\[[0-9]*m")

// TestTerminal: on a terminal of 80 columns, no line is longer, and only there are colors.
func TestTerminal(t *testing.T) {
	long := "demoapp/" + strings.Repeat("a-very-long-name-", 4) + "x"
	w := newWideWorld(t)
	for _, args := range [][]string{
		{"get"}, {"get", "-A"}, {"status", long}, {"tree", long}, {"why", long}, {"history", long}, {"events", long},
	} {
		t.Run(args[0]+strings.Join(args[1:], ""), func(t *testing.T) {
			t.Setenv("NO_COLOR", "")
			t.Setenv("TERM", "xterm")
			text := w.onTerminal(t, args...)
			plain := escape.ReplaceAllString(text, "")
			for line := range strings.Lines(plain) {
				// A command to type is not broken.
				if columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); columns > 80 && !strings.HasPrefix(line, "Next:") {
					t.Errorf("a line has %d columns: %s", columns, line)
				}
			}
			expect.Equal(t, "is empty", false, plain == "")
			expect.Equal(t, "has colors", args[0] != "history", text != plain)

			t.Setenv("NO_COLOR", "1")
			text = w.onTerminal(t, args...)
			expect.Equal(t, "with NO_COLOR", escape.ReplaceAllString(text, ""), text)
			_, piped, _ := w.run(t, args...)
			expect.Equal(t, "in a pipe", escape.ReplaceAllString(piped, ""), piped)
		})
	}
}

// TestNamesOnTerminal: the words that are typed into the next command are whole at 80 columns.
func TestNamesOnTerminal(t *testing.T) {
	w := newReleaseWorld(t)
	w.create(t, `
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {namespace: payments, name: checkout-api, creationTimestamp: "1970-01-01T01:00:00Z"}
spec: {message: b}
`)

	text := w.onTerminal(t, "get", "-A")

	expect.Contains(t, "table", text, "NAMESPACE", "payments", "demoapp/checkout-api")
}

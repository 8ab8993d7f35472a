// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

// Command demo plays docs/tour.md on a real cluster: what "make demo" runs.
//
//	go run ./hack/demo                                  # on a control plane of its own, which ends with the tour
//	go run ./hack/demo --kubeconfig ~/.kube/config      # on the cluster of that file's current context
//
// The section above the first heading of the page builds the programs, while the control plane is
// built and started. The next section prepares the cluster. The last one cleans up; it runs after
// each failure and interrupt that follow the preparation. The sections between are the steps. The
// first step that fails ends the tour with exit code 1.
//
// A killed tour cannot clean up. Its control plane and the operator end nevertheless. On another
// cluster, the next tour finds the remains and removes them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/example/demoapp-controller/hack/pages"
)

const (
	page = "docs/tour.md"
	// cleanUpLimit bounds the clean-up, which only a second signal can end earlier.
	cleanUpLimit = 5 * time.Minute
	// diagnosisLimit bounds the commands that diagnose a failed step.
	diagnosisLimit = 15 * time.Second
)

// errShown says that the screen already shows the error.
var errShown = errors.New("shown already")

func main() {
	kubeconfig := flag.String("kubeconfig", "",
		"`file` that names the cluster to play on; without it, the tour starts a control plane of its own")
	metrics := flag.String("metrics-bind-address", "0", "`host:port` of the operator's /metrics; 0 turns it off")
	flag.Parse()
	screen := pages.NewTerminal(os.Stdout)
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, func() {
		restore()
		screen.Printf("\n  Stopping and cleaning up. A second interrupt skips the clean-up.\n")
	})
	if err := perform(ctx, screen, *kubeconfig, *metrics); err != nil {
		if !errors.Is(err, errShown) {
			screen.Failure(err)
		}
		os.Exit(1)
	}
}

// perform builds the programs for the tour, plays the tour on the cluster, and cleans up.
func perform(ctx context.Context, screen *pages.Screen, kubeconfig, metrics string) (err error) {
	content, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("run the tour from the top folder of the repository: %w", err)
	}
	sections, err := pages.Parse(string(content))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	dir, err := os.MkdirTemp("", "demoapp-tour-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	// This program may run under make. The make of the page must not act as a part of the outer
	// one.
	for _, name := range []string{"MAKEFLAGS", "MAKELEVEL", "MFLAGS"} {
		_ = os.Unsetenv(name)
	}
	bash, err := pages.StartShell(".", dir, "TMPDIR="+dir, "METRICS="+metrics) //nolint:contextcheck // The shell outlives an interrupted command.
	if err != nil {
		return err
	}
	player := &pages.Player{Shell: bash, Screen: screen}

	screen.Heading("Build")
	place, err := enter(ctx, screen, kubeconfig)
	if err != nil {
		bash.Close()
		return err
	}
	// The operator ends before its API server.
	defer func() {
		bash.Close()
		err = errors.Join(err, place.leave())
	}()
	if _, err := player.Play(ctx, sections[0]); err != nil {
		return err
	}
	if err := place.await(ctx); err != nil {
		return err
	}
	// A kubectl of the user comes first.
	const use = "export KUBECONFIG='%s' PATH=\"$PATH:%s\" THROWAWAY=%s"
	throwaway := ""
	if place.process != nil {
		throwaway = "yes"
	}
	if _, _, err := bash.Run(ctx, fmt.Sprintf(use, place.Kubeconfig, place.BinDir, throwaway)); err != nil {
		return err
	}
	return play(ctx, player, sections[1:])
}

// play plays the preparation, the steps and the clean-up.
func play(ctx context.Context, player *pages.Player, sections []pages.Section) (err error) {
	last := len(sections) - 1
	preparation, steps, cleanUp := sections[0], sections[1:last], sections[last]
	player.Screen.Heading(preparation.Title)
	if _, err := player.Play(ctx, preparation); err != nil {
		return err
	}
	defer func() {
		player.Screen.Heading(cleanUp.Title)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpLimit)
		defer cancel()
		if _, left := player.Play(ctx, cleanUp); left != nil {
			player.Screen.Failure(left)
			err = errShown
		}
	}()
	outcomes := make([]outcome, len(steps))
	var failure error
	for i, step := range steps {
		player.Screen.Heading(fmt.Sprintf("[%d/%d] %s", i+1, len(steps), step.Title))
		begin := time.Now()
		var remarks []string
		remarks, failure = player.Play(ctx, step)
		outcomes[i] = outcome{word: wordDone, took: time.Since(begin), remarks: strings.Join(remarks, ", ")}
		if failure != nil {
			outcomes[i].word = wordFailed
			break
		}
	}
	summarize(player.Screen, steps, outcomes)
	if failure == nil {
		return nil
	}
	player.Screen.Failure(failure)
	if ctx.Err() == nil {
		diagnose(ctx, player)
	}
	return errShown
}

// diagnose shows the conditions, the events and the operator's log after a failure.
func diagnose(ctx context.Context, player *pages.Player) {
	ctx, cancel := context.WithTimeout(ctx, diagnosisLimit)
	defer cancel()
	for _, text := range []string{
		`kubectl get demoapps -o jsonpath='{range .items[*]}{.metadata.name}{"\n"}{range .status.conditions[*]}` +
			`{"  "}{.type}{"="}{.status}{" "}{.reason}{": "}{.message}{"\n"}{end}{end}'`,
		"kubectl get events --sort-by=.metadata.creationTimestamp",
		"tail -n 25 $TOUR/operator.log",
	} {
		if _, err := player.PlayCommands(ctx, []pages.Command{{Text: text}}); err != nil {
			player.Screen.Failure(err)
		}
	}
}

// The words of the summary.
const (
	wordDone   = "ok"
	wordFailed = "FAILED"
)

// outcome is the result of a step. The zero value stands for a step that was not tried.
type outcome struct {
	word, remarks string
	took          time.Duration
}

// summarize shows the outcome of each step, and the totals.
func summarize(screen *pages.Screen, steps []pages.Section, outcomes []outcome) {
	screen.Heading("Summary")
	var table strings.Builder
	columns := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	var total time.Duration
	done := 0
	for i, o := range outcomes {
		total += o.took
		took := pages.Readable(o.took)
		switch o.word {
		case wordDone:
			done++
		case "":
			o.word, took = "not tried", "-"
		}
		_, _ = fmt.Fprintf(columns, "  %d\t%s\t%s\t%s\t%s\n", i+1, o.word, took, steps[i].Title, o.remarks)
	}
	_ = columns.Flush() // Into memory, where nothing can fail.
	// Colors are added last, since a tabwriter counts their codes as columns.
	text := strings.ReplaceAll(table.String(), "  "+wordDone+"  ", "  "+screen.Style(pages.Green, wordDone)+"  ")
	text = strings.ReplaceAll(text, "  "+wordFailed+"  ", "  "+screen.Style(pages.Bold+pages.Red, wordFailed)+"  ")
	for line := range strings.Lines(text) {
		screen.Printf("%s\n", strings.TrimRight(line, " \n"))
	}
	screen.Printf("\n  %d of %d steps in %s.\n", done, len(outcomes), pages.Readable(total))
}

// enter begins to start a control plane. With a kubeconfig, it returns that cluster, and builds a
// kubectl if the machine has none.
func enter(ctx context.Context, screen *pages.Screen, kubeconfig string) (*place, error) {
	if kubeconfig == "" {
		return startPlace(ctx, screen)
	}
	path, err := filepath.Abs(kubeconfig)
	if err != nil {
		return nil, err
	}
	given := &place{Kubeconfig: path}
	if _, err := exec.LookPath("kubectl"); err == nil {
		return given, nil
	}
	build := localCluster(ctx, "build")
	screen.Printf("\n  $ %s\n", strings.Join(build.Args, " "))
	folder, err := build.Output()
	given.BinDir = strings.TrimSpace(string(folder))
	return given, err
}

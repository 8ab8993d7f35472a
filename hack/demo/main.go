// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	// cleanupLimit bounds the clean-up, which only a second signal can end earlier.
	cleanupLimit = 3 * time.Minute
	// actLimit is longer than the timeouts of kubectl commands, so that kubectl's own message is shown.
	actLimit = waitLimit + 10*time.Second
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
	scr := newScreen(os.Stdout)
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, func() {
		restore()
		scr.info("Stopping and cleaning up. A second interrupt skips the clean-up.")
	})
	if err := perform(ctx, scr, *kubeconfig, *metrics); err != nil {
		if !errors.Is(err, errShown) {
			scr.failure(err)
		}
		os.Exit(1)
	}
}

// perform prepares a cluster and the operator, plays the tour, and cleans up.
func perform(ctx context.Context, scr *screen, kubeconfig, metrics string) (err error) {
	if _, err := os.Stat(operatorSource); err != nil {
		return fmt.Errorf("run the tour from the top folder of the repository: %w", err)
	}
	dir, err := os.MkdirTemp("", "demoapp-tour-")
	if err != nil {
		return fmt.Errorf("create a folder for the tour: %w", err)
	}
	defer func() { err = cleaned(scr, err, os.RemoveAll(dir)) }()

	scr.heading("Preparation")
	newer, binDir, err := buildAll(ctx, scr, kubeconfig, dir)
	if err != nil {
		return err
	}
	licenses, err := startLicenses(ctx)
	if err != nil {
		return err
	}
	defer func() { err = cleaned(scr, err, licenses.stop()) }()
	place, sh, err := enter(ctx, scr, kubeconfig, dir, binDir)
	if err != nil {
		return err
	}
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	op, err := newOperator(ctx, sh, dir, newer, licenses.url(), metrics, func(err error) { cancel(err) })
	stop := func() error { return nil }
	if err == nil {
		stop = op.stop
	}
	defer func() {
		scr.heading("Cleaning up")
		cleanup, done := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer done()
		left := place.leave(cleanup, stop)
		if left == nil {
			scr.info("Nothing of the tour is left.")
		}
		err = cleaned(scr, err, left)
	}()
	if err != nil {
		return err
	}
	failed := play(running, scr, sh, op, licenses)
	if failed && ctx.Err() == nil {
		diagnose(ctx, scr, sh, op)
	}
	if failed {
		return errShown
	}
	return nil
}

// cleaned returns err. If the clean-up failed, it shows that, and returns an error.
func cleaned(scr *screen, err, left error) error {
	if left == nil {
		return err
	}
	scr.failure(fmt.Errorf("clean up: %w", left))
	return errors.Join(err, errShown)
}

// play plays the tour and shows the summary.
func play(ctx context.Context, scr *screen, sh shell, op *operator, licenses licensor) (failed bool) {
	features, err := observeFeatures(ctx, sh)
	if err != nil {
		scr.failure(err)
		return true
	}
	p := &player{shell: sh, screen: scr, now: time.Now, limit: actLimit}
	outcomes := p.play(ctx, tour(op, licenses, features))
	scr.summary(outcomes)
	for _, o := range outcomes {
		if o.err != nil {
			scr.failure(o.err)
			return true
		}
	}
	return false
}

// diagnose shows the conditions, the events and the operator's log after a failure.
func diagnose(ctx context.Context, scr *screen, sh shell, op *operator) {
	ctx, cancel := context.WithTimeout(ctx, diagnosisLimit)
	defer cancel()
	const conditions = `'{range .items[*]}{.metadata.name}{"\n"}{range .status.conditions[*]}` +
		`{"  "}{.type}{"="}{.status}{" "}{.reason}{": "}{.message}{"\n"}{end}{end}'`
	for _, command := range []string{
		in("get demoapps -o jsonpath=" + conditions),
		in("get events --sort-by=.metadata.creationTimestamp"),
	} {
		scr.command(command)
		output, err := sh.run(ctx, command)
		scr.output(output)
		if err != nil {
			scr.info("%v", err)
		}
	}
	const lines = 25
	if tail := op.logTail(lines); tail != "" {
		scr.heading("The end of the operator's log")
		scr.output(tail)
	}
}

// buildAll builds the operator, its newer version, and beside them the programs of a control plane if the tour needs one
// of them. It returns the newer binary and the folder of the programs, if any.
func buildAll(ctx context.Context, scr *screen, kubeconfig, dir string) (newer, binDir string, err error) {
	var programs *binaries
	_, lookErr := exec.LookPath("kubectl")
	if kubeconfig == "" || lookErr != nil {
		scr.info("The control plane and kubectl are built, beside the operator. This takes minutes, once.")
		scr.command(buildBinariesCommand + " &")
		programs = startBinaries(ctx)
		defer programs.stop()
	}
	if err := build(ctx, scr); err != nil {
		return "", "", err
	}
	if newer, err = buildNewer(ctx, scr, dir); err != nil || programs == nil {
		return newer, "", err
	}
	binDir, err = programs.wait()
	return newer, binDir, err
}

// enter starts or enters the cluster, and returns the shell whose kubectl reaches it. binDir has a kubectl, unless it is
// empty.
func enter(ctx context.Context, scr *screen, kubeconfig, dir, binDir string) (stage, shell, error) {
	if kubeconfig == "" {
		// KUBECONFIG may name a cluster in use, so only the flag makes the tour play there.
		if os.Getenv("KUBECONFIG") != "" {
			scr.info("KUBECONFIG is set and not used; make demo KUBECONFIG=\"$KUBECONFIG\" plays on that cluster.")
		}
		scr.command("go -C hack/localcluster run . up --foreground &")
		begin := time.Now()
		local, err := startLocal(ctx)
		if err != nil {
			return nil, nil, err
		}
		scr.took(time.Since(begin))
		return local, posixShell{env: environment(local.kubeconfig, dir, binDir)}, nil
	}
	sh := posixShell{env: environment(kubeconfig, dir, binDir)}
	crds, err := crdNames(crdFiles)
	for _, kind := range optInKinds {
		name, nameErr := crdName(kind.file("crd"))
		crds, err = append(crds, name), errors.Join(err, nameErr)
	}
	if err != nil {
		return nil, nil, err
	}
	place, err := enterForeign(ctx, sh, scr, crds)
	if err != nil {
		return nil, nil, err
	}
	return place, sh, nil
}

// build runs "make build", which builds nothing that is up to date.
func build(ctx context.Context, scr *screen) error {
	const command = "make build"
	scr.command(command)
	begin := time.Now()
	// This program may run under make. The inner make must not act as a part of the outer one.
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return name == "MAKEFLAGS" || name == "MAKELEVEL" || name == "MFLAGS"
	})
	output, err := posixShell{env: env}.run(ctx, command)
	scr.output(output)
	scr.took(time.Since(begin))
	if err != nil {
		return fmt.Errorf("build the operator: %w", err)
	}
	return nil
}

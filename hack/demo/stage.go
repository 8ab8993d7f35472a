// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// stage is the cluster of the tour.
type stage interface {
	// leave restores the earlier state of the cluster. It calls stopOperator when it no longer needs the operator.
	leave(ctx context.Context, stopOperator func() error) error
}

// environment returns the environment of the tour's commands: the kubeconfig of the cluster, a discovery cache in the
// tour's folder, and binDir, if any, at the end of the path.
func environment(kubeconfig, dir, binDir string) []string {
	env := append(os.Environ(), "KUBECONFIG="+kubeconfig, "KUBECACHEDIR="+filepath.Join(dir, "cache"))
	if binDir != "" {
		env = append(env, "PATH="+os.Getenv("PATH")+string(os.PathListSeparator)+binDir)
	}
	return env
}

// localStage is a control plane that ends with this program.
type localStage struct {
	process    *exec.Cmd
	lifeline   io.Closer
	kubeconfig string
}

// localClusterEnd bounds the time that the control plane takes to end.
const localClusterEnd = 30 * time.Second

// startLocal starts a control plane. After an error, no process is left.
func startLocal(ctx context.Context) (*localStage, error) {
	// The cluster is needed longer than ctx lasts. leave ends the cluster.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "go", "-C", "hack/localcluster", "run", ".", "up", "--foreground")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	lifeline, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a control plane: %w", err)
	}
	local := &localStage{process: cmd, lifeline: lifeline}
	// The control plane prints one line when it is ready. An interrupt ends the control plane, and so the wait for the
	// line.
	stopWatching := context.AfterFunc(ctx, local.interrupt)
	report, readErr := bufio.NewReader(stdout).ReadBytes('\n')
	if !stopWatching() || readErr != nil {
		err := local.leave(context.WithoutCancel(ctx), func() error { return nil })
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, errors.Join(fmt.Errorf("the control plane did not start: %w", readErr), err)
	}
	var connection struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	if err := json.Unmarshal(report, &connection); err != nil {
		return nil, errors.Join(fmt.Errorf("read what the control plane reports: %w", err),
			local.leave(ctx, func() error { return nil }))
	}
	local.kubeconfig = connection.Kubeconfig
	return local, nil
}

// interrupt asks the control plane to end while it is being built or while it runs. Errors mean that it has already
// ended.
func (l *localStage) interrupt() {
	_ = l.lifeline.Close()
	_ = syscall.Kill(-l.process.Process.Pid, syscall.SIGINT)
}

// leave implements stage.
func (l *localStage) leave(_ context.Context, stopOperator func() error) error {
	err := stopOperator()
	killer := time.AfterFunc(localClusterEnd, func() { _ = syscall.Kill(-l.process.Process.Pid, syscall.SIGKILL) })
	defer killer.Stop()
	if closeErr := l.lifeline.Close(); closeErr != nil && !errors.Is(closeErr, os.ErrClosed) {
		err = errors.Join(err, fmt.Errorf("end the control plane: %w", closeErr))
	}
	if waitErr := l.process.Wait(); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("end the control plane: %w", waitErr))
	}
	return err
}

// foreignStage is a cluster that exists before and after the tour.
type foreignStage struct {
	shell  shell
	screen *screen
	// crds are the names of the operator's CRDs.
	crds []string
	// keepAudit is true if the audit namespace existed before the tour.
	keepAudit bool
}

// enterForeign checks that the tour will be able to distinguish its own objects from others on this cluster.
func enterForeign(ctx context.Context, sh shell, scr *screen, crds []string) (*foreignStage, error) {
	f := &foreignStage{shell: sh, screen: scr, crds: crds}
	server, err := f.ask(ctx, "config view --minify -o jsonpath='{.clusters[0].cluster.server}'")
	if err != nil {
		return nil, err
	}
	scr.info("The tour plays on %s, in the namespace %s, and removes what it makes.", server, tourNamespace)
	remains, err := f.ask(ctx, "get namespaces -l "+tourLabel+"=true -o name")
	if err != nil {
		return nil, err
	}
	audit, err := f.ask(ctx, "get namespace "+auditNamespace+" --ignore-not-found -o name")
	if err != nil {
		return nil, err
	}
	f.keepAudit = audit != ""
	if remains != "" {
		scr.info("An earlier tour was cut short here; its remains are removed first.")
		if err := f.leave(ctx, func() error { return nil }); err != nil {
			return nil, err
		}
	}
	present, err := f.ask(ctx, fmt.Sprintf("get namespace/%s namespace/%s clusterrole/%s clusterrolebinding/%[3]s "+
		"customresourcedefinition/%[4]s --ignore-not-found -o name",
		tourNamespace, systemNamespace, serviceAccount, strings.Join(crds, " customresourcedefinition/")))
	if err != nil {
		return nil, err
	}
	if present != "" {
		return nil, fmt.Errorf("this cluster has %s already: the tour would not know what is its own; "+
			"remove it, or take another cluster", strings.Join(strings.Fields(present), ", "))
	}
	return f, nil
}

// ask runs a kubectl command without showing it.
func (f *foreignStage) ask(ctx context.Context, command string) (string, error) {
	output, err := f.shell.run(ctx, "kubectl "+command)
	output = strings.TrimSpace(output)
	if err != nil {
		return "", fmt.Errorf("kubectl %s: %s: %w", command, output, err)
	}
	return output, nil
}

// leave implements stage.
func (f *foreignStage) leave(ctx context.Context, stopOperator func() error) error {
	// kubectl fails for a kind that the cluster does not serve, so only existing CRDs are named.
	crds, err := f.ask(ctx, "get customresourcedefinition "+strings.Join(f.crds, " ")+
		" --ignore-not-found -o custom-columns=:metadata.name")
	if served := strings.Fields(crds); err == nil && len(served) > 0 {
		err = f.removeCustomResources(ctx, strings.Join(served, ","), stopOperator)
	}
	errs := []error{err, stopOperator()}
	namespaces := []string{tourNamespace, systemNamespace}
	if f.keepAudit {
		errs = append(errs, f.remove(ctx, fmt.Sprintf("-n %s delete configmaps -l demo.example.com/source-namespace=%s",
			auditNamespace, tourNamespace)))
	} else {
		namespaces = append(namespaces, auditNamespace)
	}
	kindCRDs, kindRBAC := "", ""
	for _, kind := range optInKinds {
		kindCRDs += " -f " + kind.file("crd")
		kindRBAC += " -f " + kind.file("rbac")
	}
	commands := []string{
		"delete -f " + rbacFile + kindRBAC,
		// One command, since the deletion of a namespace takes seconds.
		"delete namespace " + strings.Join(namespaces, " "),
		"delete -f " + crdFiles + kindCRDs,
		"delete ingressclass " + tourClass,
		"delete persistentvolumes -l " + tourLabel + "=true",
		"delete crd -l " + tourLabel + "=true",
	}
	for _, command := range commands {
		errs = append(errs, f.remove(ctx, command))
	}
	errs = append(errs, f.awaitVolumes(ctx))
	return errors.Join(errs...)
}

// awaitVolumes waits until the provisioner has deleted the volumes of the databases, whose claims ended with the
// namespace. A volume remains if its StorageClass retains volumes, which is an error.
func (f *foreignStage) awaitVolumes(ctx context.Context) error {
	const claimed = `jsonpath='{.items[?(@.spec.claimRef.namespace=="` + tourNamespace + `")].metadata.name}'`
	volumes, err := f.ask(ctx, "get persistentvolumes -o "+claimed)
	if err != nil || volumes == "" {
		return err
	}
	command := "wait persistentvolumes " + volumes + " --for=delete --timeout=60s"
	if err := f.show(ctx, command); err != nil {
		return fmt.Errorf("volumes of the tour remain; delete them if their StorageClass retains volumes: %w", err)
	}
	return nil
}

// removeCustomResources deletes the tour's custom resources of the given kinds while the operator runs. If the operator
// does not run, or fails, their finalizers are removed, since the tour's own objects are no loss.
func (f *foreignStage) removeCustomResources(ctx context.Context, kinds string, stopOperator func() error) error {
	const patience = "20s"
	remove := "-n " + tourNamespace + " delete " + kinds + " --all --timeout=" + patience
	_, deleteErr := f.ask(ctx, remove)
	if deleteErr == nil {
		// A custom resource that was deleted before its owner may have been recreated.
		_, deleteErr = f.ask(ctx, remove)
	}
	stopErr := stopOperator()
	left, err := f.ask(ctx, "-n "+tourNamespace+" get "+kinds+" -o name")
	if err != nil {
		return errors.Join(deleteErr, stopErr, err)
	}
	errs := []error{stopErr}
	for name := range strings.FieldsSeq(left) {
		f.screen.info("%s is still there; its finalizers are removed.", name)
		_, err := f.ask(ctx, fmt.Sprintf(`-n %s patch %s --type=merge -p '{"metadata":{"finalizers":null}}'`,
			tourNamespace, name))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// remove runs and shows a command that deletes.
func (f *foreignStage) remove(ctx context.Context, command string) error {
	return f.show(ctx, command+" --ignore-not-found --timeout=60s")
}

// show runs and shows a command.
func (f *foreignStage) show(ctx context.Context, command string) error {
	f.screen.command("kubectl " + command)
	begin := time.Now()
	output, err := f.ask(ctx, command)
	f.screen.output(output)
	f.screen.took(time.Since(begin))
	return err
}

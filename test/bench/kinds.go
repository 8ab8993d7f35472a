// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/dynamicinformer"

	"github.com/example/demoapp-controller/test/cluster"
)

const (
	// sampleName has as many characters as the names of the custom resources that are measured.
	sampleName = "smp-00000"
	// kindNodes is the number of simulated nodes, which have room for the pods of all custom resources.
	kindNodes = 10
	// operatorAccount is the ServiceAccount of the operator.
	operatorAccount = "demoapp-controller"
)

// kindsBench measures the custom resources of one plain Go kind.
type kindsBench struct {
	*bench

	count   int
	subject *subject
	states  states
	pods    *podCounter
	sample  sample
}

// sample is what one custom resource shows about all of its kind.
type sample struct {
	uid types.UID
	// writes are those of the operator until the custom resource was ready and the operator at rest.
	writes []write
	// children are those in the status, and owners are the objects with a status.
	children, owners, pods int
}

// measureKinds measures the kinds one after another, each on a control plane of its own, and prints a report as Markdown.
// It fails if a floor was slower than the operator.
func measureKinds(ctx context.Context, o options, kinds []kindCount, binary string) error {
	var slower []error
	for _, k := range kinds {
		report, err := measureKind(ctx, o, k, binary)
		if err != nil {
			return fmt.Errorf("%s: %w", k.folder, err)
		}
		fmt.Print(report.page())
		slower = append(slower, report.checkFloor())
	}
	return errors.Join(slower...)
}

func measureKind(ctx context.Context, o options, k kindCount, binary string) (r kindReport, err error) {
	c, err := cluster.Start(ctx, cluster.Options{Nodes: kindNodes, Audit: true})
	if err != nil {
		return r, err
	}
	defer func() { // The control plane is stopped after the end of ctx, too.
		if err := c.Stop(); err != nil {
			log.Print(err)
		}
	}()
	b, err := newKindsBench(ctx, c, o, k)
	if err != nil {
		return r, err
	}
	defer b.close()
	if r, err = b.run(ctx, binary); err != nil {
		return r, fmt.Errorf("%w\n%s", err, b.operatorLog())
	}
	return r, nil
}

func newKindsBench(ctx context.Context, c *cluster.Cluster, o options, k kindCount) (*kindsBench, error) {
	subject, err := loadSubject(c, o.root, k.folder)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	b := &kindsBench{
		bench: &bench{options: o, cluster: c, config: c.AdminConfig(), kube: c.Client, dir: dir, stop: stop},
		count: k.count, subject: subject,
	}
	if err := b.deploy(ctx); err != nil {
		return nil, err
	}
	for _, resource := range subject.involved {
		informer := dynamicinformer.NewFilteredDynamicInformer(c.Dynamic, resource, metav1.NamespaceAll, 0, nil, nil).Informer()
		if _, err := informer.AddEventHandler(b.states.handler(resource.Resource)); err != nil {
			return nil, err
		}
		go informer.RunWithContext(watching)
	}
	if err := provisionVolumes(watching, b.kube); err != nil {
		return nil, err
	}
	b.pods, err = watchPods(watching, b.config)
	return b, err
}

// deploy applies the CRDs and the RBAC of the kind and of the kinds that it has as children.
func (b *kindsBench) deploy(ctx context.Context) error {
	if err := b.cluster.InstallCRDs(ctx, b.subject.files(b.options.root, "crd.yaml")...); err != nil {
		return err
	}
	deploy := filepath.Join(b.options.root, "artifacts", "deploy")
	files := []string{filepath.Join(deploy, "00-namespace.yaml"), filepath.Join(deploy, "10-rbac.yaml")}
	files = append(files, b.subject.files(b.options.root, "rbac.yaml")...)
	if err := b.cluster.ApplyFiles(ctx, "", files...); err != nil {
		return err
	}
	if err := b.createNamespaces(ctx); err != nil {
		return err
	}
	if err := b.applyBeside(ctx); err != nil {
		return err
	}
	kubeconfig := filepath.Join(b.dir, "kubeconfig")
	b.args = []string{fmt.Sprintf("--workers=%d", b.options.workers), "--resync-period=24h", "--kubeconfig=" + kubeconfig}
	return b.cluster.WriteServiceAccountKubeconfig(ctx, operatorNamespace, operatorAccount, kubeconfig)
}

// applyBeside applies what the example has beside the custom resource, such as Secrets.
func (b *kindsBench) applyBeside(ctx context.Context) error {
	for _, namespace := range []string{benchNamespace, floorNamespace} {
		for _, object := range b.subject.beside {
			if err := b.cluster.ApplyObject(ctx, namespace, object); err != nil {
				return err
			}
		}
	}
	return nil
}

// run measures all phases.
func (b *kindsBench) run(ctx context.Context, binary string) (kindReport, error) {
	r := kindReport{kind: b.subject.kind, count: b.count, idleFor: b.options.idle, machine: machine(), day: time.Now()}
	phases := []struct {
		name string
		run  func() error
	}{
		{"sample", func() error { return b.takeSample(ctx, binary, &r) }},
		{"warm up", func() error {
			_, err := b.runFloor(ctx, min(b.count, warmUpSize))
			return err
		}},
		{"floor", func() (err error) {
			r.floor, err = b.runFloor(ctx, b.count)
			return err
		}},
		{"start", func() error { return b.startOperator(ctx, binary) }},
		{"install", func() error { return b.install(ctx, &r) }},
		{"rest", func() error { return b.rest(ctx, &r) }},
		{"drift", func() error { return b.driftAll(ctx, &r) }},
		{"restart", func() error { return b.restartAll(ctx, binary, &r) }},
		{"delete", func() error { return b.deleteAll(ctx, &r) }},
	}
	for _, phase := range phases {
		started := time.Now()
		if err := phase.run(); err != nil {
			return r, fmt.Errorf("%s: %w", phase.name, err)
		}
		took := time.Since(started).Round(time.Second)
		log.Printf("%d %s: %s took %s", b.count, b.subject.resource.Resource, phase.name, took)
	}
	return r, b.stopOperator()
}

// takeSample lets the operator make one custom resource ready, and records what it writes.
func (b *kindsBench) takeSample(ctx context.Context, binary string, r *kindReport) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	account, err := b.cluster.ServiceAccountConfig(ctx, operatorNamespace, operatorAccount)
	if err != nil {
		return err
	}
	recorder, err := startRecorder(listener, account)
	if err != nil {
		return err
	}
	defer recorder.close()
	direct := b.args
	defer func() { b.args = direct }()
	kubeconfig := filepath.Join(b.dir, "kubeconfig-recorder")
	if err := recorder.writeKubeconfig(filepath.Join(b.dir, "kubeconfig"), kubeconfig); err != nil {
		return err
	}
	// The last value of a flag counts.
	b.args = append(b.args[:len(b.args):len(b.args)], "--kubeconfig="+kubeconfig)
	if err := b.startOperator(ctx, binary); err != nil {
		return err
	}
	custom, err := b.subject.named(sampleName)
	if err != nil {
		return err
	}
	resources := b.cluster.Dynamic.Resource(b.subject.resource).Namespace(benchNamespace)
	created, err := resources.Create(ctx, custom, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := b.states.await(ctx, 1, b.isReady); err != nil {
		return err
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	live, err := resources.Get(ctx, sampleName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	b.sample = sample{
		uid: created.GetUID(), writes: recorder.recorded(), children: appliedChildren(live), pods: b.pods.count(benchNamespace),
	}
	b.sample.owners = ownersIn(b.sample.writes)
	r.describe(b.sample)
	if err := resources.Delete(ctx, sampleName, metav1.DeleteOptions{}); err != nil {
		return err
	}
	if err := b.states.await(ctx, 0, nil); err != nil {
		return err
	}
	return b.stopOperator()
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// StartInstalledOperator starts the operator as an installed Deployment describes it: with the
// flags and the environment of its container, as its ServiceAccount. It applies nothing. A process
// on this machine needs some other flags, which follow: the kubeconfig, the namespace of the lease,
// addresses on 127.0.0.1, and overrides.
func StartInstalledOperator(ctx context.Context, t testing.TB, c *Cluster, deployment types.NamespacedName, overrides ...string) *Operator {
	t.Helper()
	live, err := c.Client.AppsV1().Deployments(deployment.Namespace).Get(ctx, deployment.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := live.Spec.Template.Spec
	env, err := environment(pod.Containers[0])
	if err != nil {
		t.Fatal(err)
	}
	binary, err := c.operatorProgram(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return launch(ctx, t, c, Launch{
		Binary: binary, Namespace: deployment.Namespace, Account: pod.ServiceAccountName,
		Defaults: pod.Containers[0].Args, Args: overrides, Env: env,
	}).AwaitReady(ctx, t)
}

// environment returns the variables of a container. All of them must have values.
func environment(container corev1.Container) ([]string, error) {
	var env []string
	for _, variable := range container.Env {
		if variable.ValueFrom != nil {
			return nil, fmt.Errorf("the variable %s has no value, but a source", variable.Name)
		}
		env = append(env, variable.Name+"="+variable.Value)
	}
	return env, nil
}

// operatorProgram builds the operator and returns its path.
func (c *Cluster) operatorProgram(ctx context.Context) (string, error) {
	c.operatorMutex.Lock()
	defer c.operatorMutex.Unlock()
	return c.buildOperator(ctx)
}

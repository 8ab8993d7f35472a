// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/kubernetes"
)

// Builtin returns built-in kinds of Kubernetes as kinds of children, by name, such as "Deployment".
//
// The API server lets the operator create a Role or RoleBinding only with permissions that the
// operator has itself. The rules of such a child must not depend on input of a tenant. Otherwise
// the tenant gains the operator's permissions.
func Builtin(env Informers, kube kubernetes.Interface, names ...string) ([]ManagedKind, error) {
	kinds := make([]ManagedKind, 0, len(names))
	for _, name := range names {
		kind, err := builtin(env, kube, name)
		if err != nil {
			return nil, fmt.Errorf("children of kind %s: %w", name, err)
		}
		kinds = append(kinds, kind)
	}
	return kinds, nil
}

func builtin(env Informers, kube kubernetes.Interface, name string) (ManagedKind, error) {
	switch name {
	case "ConfigMap":
		return Of(env, kube, corev1.SchemeGroupVersion.WithKind(name), kube.CoreV1().ConfigMaps)
	case "Secret":
		return Of(env, kube, corev1.SchemeGroupVersion.WithKind(name), kube.CoreV1().Secrets)
	case "Service":
		return Of(env, kube, corev1.SchemeGroupVersion.WithKind(name), kube.CoreV1().Services)
	case "ServiceAccount":
		return Of(env, kube, corev1.SchemeGroupVersion.WithKind(name), kube.CoreV1().ServiceAccounts)
	case "PersistentVolumeClaim":
		return Of(env, kube, corev1.SchemeGroupVersion.WithKind(name), kube.CoreV1().PersistentVolumeClaims)
	case "Deployment":
		return Of(env, kube, appsv1.SchemeGroupVersion.WithKind(name), kube.AppsV1().Deployments)
	case "StatefulSet":
		return Of(env, kube, appsv1.SchemeGroupVersion.WithKind(name), kube.AppsV1().StatefulSets)
	case "CronJob":
		return Of(env, kube, batchv1.SchemeGroupVersion.WithKind(name), kube.BatchV1().CronJobs)
	case "Job":
		return Of(env, kube, batchv1.SchemeGroupVersion.WithKind(name), kube.BatchV1().Jobs)
	case "Ingress":
		return Of(env, kube, networkingv1.SchemeGroupVersion.WithKind(name), kube.NetworkingV1().Ingresses)
	case "NetworkPolicy":
		return Of(env, kube, networkingv1.SchemeGroupVersion.WithKind(name), kube.NetworkingV1().NetworkPolicies)
	case "PodDisruptionBudget":
		return Of(env, kube, policyv1.SchemeGroupVersion.WithKind(name), kube.PolicyV1().PodDisruptionBudgets)
	case "Role":
		return Of(env, kube, rbacv1.SchemeGroupVersion.WithKind(name), kube.RbacV1().Roles)
	case "RoleBinding":
		return Of(env, kube, rbacv1.SchemeGroupVersion.WithKind(name), kube.RbacV1().RoleBindings)
	default:
		return ManagedKind{}, errors.New("the kind is not listed here: use Of")
	}
}

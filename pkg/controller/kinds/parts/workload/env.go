// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

// Value returns an environment variable with a value. Kubernetes replaces $(NAME) in it.
func Value(name, value string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValue(value)
}

// FromSecret returns an environment variable with the value of a key of a Secret.
func FromSecret(name, secret, key string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().
		WithSecretKeyRef(corev1ac.SecretKeySelector().WithName(secret).WithKey(key)))
}

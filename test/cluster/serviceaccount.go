// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

// tokenLifetime outlasts any test.
const tokenLifetime = 6 * time.Hour

// jwtParts is the number of parts of a JSON Web Token: header, claims and signature.
const jwtParts = 3

// ServiceAccountConfig returns a configuration with a new token of a ServiceAccount and without a
// rate limit.
func (c *Cluster) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(tokenLifetime.Seconds())),
	}}
	answer, err := c.Client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token for ServiceAccount %s/%s: %w", namespace, name, err)
	}
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = answer.Status.Token
	config.QPS = -1
	return config, nil
}

// WriteServiceAccountKubeconfig writes a kubeconfig file with a new token of a ServiceAccount.
func (c *Cluster) WriteServiceAccountKubeconfig(ctx context.Context, namespace, name, path string) error {
	config, err := c.ServiceAccountConfig(ctx, namespace, name)
	if err != nil {
		return err
	}
	return writeKubeconfig(config, namespace, path)
}

// writeKubeconfig writes a kubeconfig file for a config with a token.
func writeKubeconfig(config *rest.Config, namespace, path string) error {
	const key = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[key] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[key] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	file.Contexts[key] = &clientcmdapi.Context{Cluster: key, AuthInfo: key, Namespace: namespace}
	file.CurrentContext = key
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return nil
}

// credentialOf returns AuditEvent.Credential for requests with a token of a ServiceAccount.
func credentialOf(token string) (string, error) {
	parts := strings.Split(token, ".")
	if len(parts) != jwtParts {
		return "", errors.New("the token of a ServiceAccount is no JSON Web Token")
	}
	content, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return "", fmt.Errorf("decode the token of a ServiceAccount: %w", err)
	}
	var claims struct {
		ID string `json:"jti"`
	}
	if err := json.Unmarshal(content, &claims); err != nil {
		return "", fmt.Errorf("read the token of a ServiceAccount: %w", err)
	}
	return "JTI=" + claims.ID, nil
}

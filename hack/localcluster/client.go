// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"time"
)

// requestTimeout bounds one request, for servers that accept a connection and never answer.
const requestTimeout = 5 * time.Second

// client sends the few requests that the start of a cluster needs. The real client library would
// make every command seconds slower to build and start.
type client struct {
	server string
	http   *http.Client
}

// newClient returns a client for the API server at the URL server. The client trusts ca and
// authenticates with the certificates, if any.
func newClient(server string, ca []byte, certificates ...tls.Certificate) *client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &client{server: server, http: &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: certificates, MinVersion: tls.VersionTLS12},
		},
	}}
}

// close closes the idle connections.
func (c *client) close() { c.http.CloseIdleConnections() }

// statusError is an answer with another status than success.
type statusError struct {
	code int
	body string
}

// Error implements error.
func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d: %s", e.code, e.body) }

// do sends body, if any, and decodes the answer into result, if any.
func (c *client) do(ctx context.Context, method, path string, body, result any) error {
	var content io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode request: %w", err)
		}
		content = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, content)
	if err != nil {
		return fmt.Errorf("create request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return &statusError{code: response.StatusCode, body: string(answer)}
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("decode answer: %w", err)
	}
	return nil
}

// ready returns nil when the API server says that it is ready.
func (c *client) ready(ctx context.Context) error {
	return c.do(ctx, http.MethodGet, "/readyz", nil, nil)
}

// createNodes creates count nodes for kwok to play.
func (c *client) createNodes(ctx context.Context, count int) error {
	for i := range count {
		if err := c.createNode(ctx, fmt.Sprintf("node-%d", i)); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) createNode(ctx context.Context, name string) error {
	type object = map[string]any
	resources := map[string]string{"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "2000"}
	err := c.do(ctx, http.MethodPost, "/api/v1/nodes", object{
		"apiVersion": "v1",
		"kind":       "Node",
		"metadata": object{"name": name, "labels": map[string]string{
			"kubernetes.io/hostname": name,
			"kubernetes.io/os":       "linux",
			"kubernetes.io/arch":     runtime.GOARCH,
			simulatedLabel:           "true",
		}},
		"status": object{
			"allocatable": resources,
			"capacity":    resources,
			"nodeInfo": map[string]string{
				"architecture": runtime.GOARCH, "operatingSystem": "linux", "osImage": "simulated", "kernelVersion": "simulated",
				"kubeletVersion": "kwok", "containerRuntimeVersion": "kwok", "machineID": "", "systemUUID": "", "bootID": "",
				"kubeProxyVersion": "",
			},
		},
	}, nil)
	if err != nil {
		return fmt.Errorf("create node %s: %w", name, err)
	}
	return nil
}

// node has the fields of a Node that matter here.
type node struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Taints []struct {
			Key string `json:"key"`
		} `json:"taints"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// schedulable returns nil if pods can run on n, and otherwise the reason why not.
func (n node) schedulable() error {
	ready := false
	for _, condition := range n.Status.Conditions {
		if condition.Type == "Ready" {
			ready = condition.Status == "True"
		}
	}
	if !ready {
		return fmt.Errorf("node %s is not Ready", n.Metadata.Name)
	}
	for _, taint := range n.Spec.Taints {
		return fmt.Errorf("node %s still has the taint %s", n.Metadata.Name, taint.Key)
	}
	return nil
}

// nodesReady returns nil if pods can run on all of want nodes, and otherwise the reasons why not.
func (c *client) nodesReady(ctx context.Context, want int) error {
	var list struct {
		Items []node `json:"items"`
	}
	if err := c.do(ctx, http.MethodGet, "/api/v1/nodes", nil, &list); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	if len(list.Items) != want {
		return fmt.Errorf("%d of %d nodes exist", len(list.Items), want)
	}
	var blocked []error
	for _, n := range list.Items {
		blocked = append(blocked, n.schedulable())
	}
	return errors.Join(blocked...)
}

// namespaceReady returns nil when pods can be created in the default namespace.
func (c *client) namespaceReady(ctx context.Context) error {
	if err := c.do(ctx, http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", nil, nil); err != nil {
		return fmt.Errorf("get ServiceAccount default/default: %w", err)
	}
	return nil
}

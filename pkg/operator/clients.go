// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

const (
	// preflightTimeout bounds the attempts to reach the API server at the start. It is longer than
	// usual restarts of an API server, because a leader that has lost its lease starts again
	// meanwhile.
	preflightTimeout = 2 * time.Minute
	// preflightRetry is the time between two attempts.
	preflightRetry = time.Second
	// preflightRequestTimeout bounds one attempt, because a network may drop packets silently.
	preflightRequestTimeout = 5 * time.Second
)

// Clients are the clients of the API server. They share one HTTP client and its connections. Build
// the typed clientsets of further kinds with NewForConfigAndClient, from Config and HTTP.
type Clients struct {
	Config *rest.Config
	HTTP   *http.Client
	// Kube is the client of built-in kinds. It uses protobuf.
	Kube kubernetes.Interface
	// Metadata is the client of the metadata of any kind.
	Metadata metadata.Interface
	// Dynamic is the client of any kind.
	Dynamic dynamic.Interface
}

// restConfig returns the configuration of the clients: from the kubeconfig file if it is set, else
// from the service account of the pod. It ignores the variable KUBECONFIG, which could select
// another cluster by mistake.
func restConfig(options Options) (*rest.Config, error) {
	config, err := loadConfig(options.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = options.Name + "/" + options.Version
	// No client-side rate limit: the API server limits requests by priority and fairness.
	config.QPS = -1
	config.Wrap(withDeadline)
	return config, nil
}

func loadConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no API server is configured: the process does not run in a pod; set --kubeconfig")
		}
		if err != nil {
			return nil, fmt.Errorf("reading the service account of the pod: %w", err)
		}
		return config, nil
	}
	rules := clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}
	file, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig=%s: %w", kubeconfig, err)
	}
	config, err := clientcmd.NewDefaultClientConfig(*file, &clientcmd.ConfigOverrides{}).ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("--kubeconfig=%s: has no current context; set one with kubectl config use-context", kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig=%s: %w", kubeconfig, err)
	}
	return config, nil
}

// NewClients returns clients for config. It sends no request.
func NewClients(config *rest.Config) (*Clients, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building the HTTP client: %w", err)
	}
	c := &Clients{Config: config, HTTP: httpClient}
	// Built-in kinds use protobuf, which is cheaper than JSON. Custom resources support only JSON.
	builtin := rest.CopyConfig(config)
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.Kube, err = kubernetes.NewForConfigAndClient(builtin, httpClient); err != nil {
		return nil, fmt.Errorf("building the client of built-in kinds: %w", err)
	}
	if c.Metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("building the client of metadata: %w", err)
	}
	if c.Dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("building the dynamic client: %w", err)
	}
	return c, nil
}

// leases returns a client of leases. Its requests end after timeout, because a request that hangs
// must leave time for a retry before the renew deadline.
func (c *Clients) leases(timeout time.Duration) (coordinationv1client.LeasesGetter, error) {
	limited := *c.HTTP
	limited.Timeout = timeout
	client, err := coordinationv1client.NewForConfigAndClient(c.Config, &limited)
	if err != nil {
		return nil, fmt.Errorf("building the client of leases: %w", err)
	}
	return client, nil
}

// retryTransient calls ask until ask succeeds or returns an error that is not transient. After
// preflightTimeout, it returns the last error of ask.
func retryTransient(ctx context.Context, ask func(context.Context) error) error {
	var (
		last    error
		waiting sync.Once
	)
	// The error of the poll is a timeout or a canceled context. The error of ask is more specific.
	_ = wait.PollUntilContextTimeout(ctx, preflightRetry, preflightTimeout, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, preflightRequestTimeout)
		defer cancel()
		last = ask(ctx)
		if isTransient(last) {
			waiting.Do(func() {
				logger := klog.FromContext(ctx)
				logger.Info("Waiting for the API server, which does not answer", "atMost", preflightTimeout, "err", last)
			})
			return false, nil
		}
		return true, nil
	})
	return last
}

// isTransient reports whether a retry of a request that failed with err may succeed.
func isTransient(err error) bool {
	var network *net.OpError
	var stream http2.StreamError
	switch {
	case err == nil:
		return false
	case errors.As(err, &network), errors.As(err, &stream), errors.Is(err, context.DeadlineExceeded):
		return true
	case utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsTimeout(err), utilnet.IsHTTP2ConnectionLost(err):
		return true
	default:
		return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
			apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
	}
}

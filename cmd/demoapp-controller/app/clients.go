// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	demov1alpha1 "github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned"
)

// ourKinds are the kinds that the API server has to serve, as people call several of them.
func ourKinds() []string { return []string{"DemoApps", "DemoAppClusters"} }

const (
	// preflightTimeout bounds the wait for an API server that does not answer.
	preflightTimeout = 10 * time.Second
	// preflightRetry is the time between two tries.
	preflightRetry = time.Second
	// preflightRequestTimeout bounds one try, for addresses that swallow packets.
	preflightRequestTimeout = 5 * time.Second
	// servedRetry is the time until the API server is asked again for CRDs that are missing. It grows to maxServedRetry,
	// and half of it at most is added at random.
	servedRetry, maxServedRetry = 500 * time.Millisecond, 10 * time.Second
)

// clients are all clients of the process. They share one HTTP client, and with it its connections.
type clients struct {
	config   *rest.Config
	http     *http.Client
	kube     kubernetes.Interface
	demo     versioned.Interface
	metadata metadata.Interface
	dynamic  dynamic.Interface
}

// restConfig returns how to reach the API server: the kubeconfig file if one is named, else the service account of the
// pod. Nothing else is looked at, so that a KUBECONFIG left in the environment cannot point the operator elsewhere.
func restConfig(cfg Config) (*rest.Config, error) {
	config, err := loadConfig(cfg.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = programName + "/" + cfg.Version
	// The API server's priority and fairness throttles; a limit of the client would only slow down bursts.
	config.QPS = -1
	return config, nil
}

func loadConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if errors.Is(err, rest.ErrNotInCluster) {
			return nil, errors.New("no API server to talk to: this is not a pod of a cluster; name a kubeconfig file with --kubeconfig")
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

// newClients returns clients for config. They send nothing yet.
func newClients(config *rest.Config) (*clients, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("building the HTTP client: %w", err)
	}
	c := &clients{config: config, http: httpClient}
	// Built-in kinds travel as protobuf, which costs a fraction of JSON; custom resources know only JSON.
	builtin := rest.CopyConfig(config)
	builtin.ContentType = runtime.ContentTypeProtobuf
	builtin.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	if c.kube, err = kubernetes.NewForConfigAndClient(builtin, httpClient); err != nil {
		return nil, fmt.Errorf("building the client of built-in kinds: %w", err)
	}
	if c.demo, err = versioned.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("building the client of DemoApps: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("building the client of metadata: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return nil, fmt.Errorf("building the dynamic client: %w", err)
	}
	return c, nil
}

// leases returns a client whose requests end after timeout: one that hangs must not use up the time in which the lease
// has to be renewed.
func (c *clients) leases(timeout time.Duration) (coordinationv1client.LeasesGetter, error) {
	limited := *c.http
	limited.Timeout = timeout
	client, err := coordinationv1client.NewForConfigAndClient(c.config, &limited)
	if err != nil {
		return nil, fmt.Errorf("building the client of leases: %w", err)
	}
	return client, nil
}

// preflight waits until the API server serves our kinds. It returns an error that says what to do when the API server
// refuses to be asked, or does not answer for ten seconds. CRDs that are missing are waited for until ctx ends: they are
// often applied together with the operator, and take a moment until they are served.
func preflight(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext, host string) error {
	backoff := wait.Backoff{Duration: servedRetry, Factor: 1.5, Jitter: 0.5, Steps: math.MaxInt32, Cap: maxServedRetry}
	var said string
	for {
		missing, err := missingKinds(ctx, api, host)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			return nil
		}
		// Once for each set of kinds, and not with each try.
		if text := strings.Join(missing, ", "); text != said {
			said = text
			klog.FromContext(ctx).Info("Waiting for CRDs that the API server does not serve yet; install them with kubectl apply -f artifacts/crds/",
				"missing", text, "groupVersion", demov1alpha1.GroupVersion.String())
		}
		retry := time.NewTimer(backoff.Step())
		select {
		case <-retry.C:
		case <-ctx.Done():
			retry.Stop()
			return ctx.Err()
		}
	}
}

// missingKinds returns those of our kinds that the API server does not serve.
func missingKinds(ctx context.Context, api discovery.ServerResourcesInterfaceWithContext, host string) ([]string, error) {
	var resources *metav1.APIResourceList
	err := retryTransient(ctx, func(ctx context.Context) (err error) {
		resources, err = api.ServerResourcesForGroupVersionWithContext(ctx, demov1alpha1.GroupVersion.String())
		return err
	})
	switch {
	case apierrors.IsNotFound(err):
		return ourKinds(), nil
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("the API server at %s refuses the credentials: %w", host, err)
	case isTransient(err):
		return nil, fmt.Errorf("the API server at %s does not answer (tried for %v): %w", host, preflightTimeout, err)
	case err != nil:
		return nil, fmt.Errorf("asking the API server at %s for the DemoApp API: %w", host, err)
	}
	return slices.DeleteFunc(ourKinds(), func(kind string) bool {
		return slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return strings.EqualFold(r.Name, kind) })
	}), nil
}

// retryTransient calls ask until it succeeds or fails for good, for as long as preflightTimeout, and returns its last
// error.
func retryTransient(ctx context.Context, ask func(context.Context) error) error {
	var last error
	// The error of the poll is that time is up, or that ctx ended; last tells more.
	_ = wait.PollUntilContextTimeout(ctx, preflightRetry, preflightTimeout, true, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, preflightRequestTimeout)
		defer cancel()
		last = ask(ctx)
		if isTransient(last) {
			klog.FromContext(ctx).V(2).Info("The API server does not answer", "err", last)
			return false, nil
		}
		return true, nil
	})
	return last
}

// isTransient tells whether a request that failed with err may succeed later.
func isTransient(err error) bool {
	var network *net.OpError
	switch {
	case err == nil:
		return false
	case errors.As(err, &network), errors.Is(err, context.DeadlineExceeded):
		return true
	case utilnet.IsConnectionReset(err), utilnet.IsProbableEOF(err), utilnet.IsTimeout(err), utilnet.IsHTTP2ConnectionLost(err):
		return true
	default:
		return apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
			apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
	}
}

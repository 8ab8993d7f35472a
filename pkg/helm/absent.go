// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// absent is the client that Helm's install and upgrade use to ask whether an object exists
// before they create it. It always answers that the object does not exist, because the
// creation finds out.
var absent = newAbsentClient()

func newAbsentClient() resource.RESTClient {
	client, err := rest.NewRESTClient(&url.URL{Scheme: "http", Host: "absent.invalid"}, "", rest.ClientContentConfig{
		ContentType:  runtime.ContentTypeJSON,
		GroupVersion: corev1.SchemeGroupVersion,
		Negotiator:   runtime.NewClientNegotiator(scheme.Codecs.WithoutConversion(), corev1.SchemeGroupVersion),
	}, nil, &http.Client{Transport: absentTransport{}, Timeout: time.Second})
	if err != nil {
		panic(fmt.Sprintf("client without a server: %v", err)) // Its arguments are constants.
	}
	return client
}

type absentTransport struct{}

// RoundTrip implements http.RoundTripper. It never opens a connection.
func (absentTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "404 Not Found", StatusCode: http.StatusNotFound, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: request,
	}, nil
}

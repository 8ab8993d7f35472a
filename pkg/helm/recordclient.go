// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"
)

// recordClient is the client of release records. It bounds the requests, which the
// storage of Helm sends without a context, and notes every answer in the index.
type recordClient struct {
	corev1client.SecretInterface

	bounds    bounds
	deadline  time.Time
	namespace string
	view      *view[*metav1.PartialObjectMetadata]
	bodies    *bodyCache
	// wroteRecord and deletedRecord, when set, are told of own writes.
	wroteRecord, deletedRecord func(metav1.Object)
}

func (c *recordClient) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithDeadline(withBounds(ctx, c.bounds), c.deadline)
}

// Create implements SecretInterface.
func (c *recordClient) Create(ctx context.Context, secret *corev1.Secret, options metav1.CreateOptions) (*corev1.Secret, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	created, err := c.SecretInterface.Create(ctx, secret, options)
	return c.wrote(created, err)
}

// Update implements SecretInterface.
func (c *recordClient) Update(ctx context.Context, secret *corev1.Secret, options metav1.UpdateOptions) (*corev1.Secret, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	updated, err := c.SecretInterface.Update(ctx, secret, options)
	return c.wrote(updated, err)
}

func (c *recordClient) wrote(secret *corev1.Secret, err error) (*corev1.Secret, error) {
	if err != nil {
		return secret, err
	}
	if c.wroteRecord != nil {
		c.wroteRecord(secret)
	}
	c.view.wrote(slimSecret(&secret.ObjectMeta))
	return secret, nil
}

// Get implements SecretInterface.
func (c *recordClient) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Secret, error) {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	return c.SecretInterface.Get(ctx, name, options)
}

// Delete implements SecretInterface.
func (c *recordClient) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	err := c.SecretInterface.Delete(ctx, name, options)
	if err == nil || apierrors.IsNotFound(err) {
		if known, ok := c.view.get(c.namespace, name); ok {
			c.dropped(known)
		}
	}
	return err
}

func (c *recordClient) dropped(record *metav1.PartialObjectMetadata) {
	if c.deletedRecord != nil {
		c.deletedRecord(record)
	}
	c.view.deleted(record)
	c.bodies.remove(record)
}

// purge removes all records of the release in one request, also those that are not
// known.
func (c *recordClient) purge(ctx context.Context, release cache.ObjectName, history []*Record) error {
	selector := labels.Set{"owner": "helm", recordName: release.Name}.String()
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	err := c.SecretInterface.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("delete the records of release %s: %w", release, err)
	}
	for _, record := range history {
		// The selector misses a record whose name label was changed.
		if record.secret.Labels[recordName] != release.Name {
			if err := c.Delete(ctx, record.secret.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete record %s: %w", record.secret.Name, err)
			}
		}
		c.dropped(record.secret)
	}
	return nil
}

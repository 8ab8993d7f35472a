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

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/overlay"
)

// recordClient reads and writes the release records of one operation. Its requests have a separate
// deadline, because the outcome of an operation is recorded even after the operation's deadline. It
// notes each answer in the index.
type recordClient struct {
	secrets corev1client.SecretInterface
	release cache.ObjectName
	// ctx has the values for the requests: the bounds of the release, and the logger.
	ctx      context.Context
	deadline time.Time
	view     *overlay.View[*metav1.PartialObjectMetadata]
	bodies   *record.Cache
	flights  *overlay.Flights[Change]
}

// context returns the context of a request.
func (c *recordClient) context() (context.Context, context.CancelFunc) {
	return context.WithDeadline(c.ctx, c.deadline)
}

func (c *recordClient) get(name string) (*corev1.Secret, error) {
	ctx, cancel := c.context()
	defer cancel()
	return c.secrets.Get(ctx, name, metav1.GetOptions{})
}

func (c *recordClient) create(secret *corev1.Secret) (*corev1.Secret, error) {
	ctx, cancel := c.context()
	defer cancel()
	return c.wrote(c.secrets.Create(ctx, secret, metav1.CreateOptions{}))
}

func (c *recordClient) update(secret *corev1.Secret) (*corev1.Secret, error) {
	ctx, cancel := c.context()
	defer cancel()
	return c.wrote(c.secrets.Update(ctx, secret, metav1.UpdateOptions{}))
}

func (c *recordClient) wrote(secret *corev1.Secret, err error) (*corev1.Secret, error) {
	if err != nil {
		return secret, err
	}
	c.flights.Wrote(c.release, secret)
	c.view.Wrote(record.Slim(&secret.ObjectMeta))
	return secret, nil
}

func (c *recordClient) delete(name string) error {
	ctx, cancel := c.context()
	defer cancel()
	err := c.secrets.Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		if known, ok := c.view.Get(c.release.Namespace, name); ok {
			c.deleted(known)
		}
	}
	return err
}

func (c *recordClient) deleted(record *metav1.PartialObjectMetadata) {
	c.flights.Deleted(c.release, record)
	c.view.Deleted(record)
	c.bodies.Remove(record)
}

// purge removes all records of the release in one request, including records that the
// index does not know.
func (c *recordClient) purge(history []*record.Record) error {
	ctx, cancel := c.context()
	defer cancel()
	selector := labels.Set{"owner": "helm", record.NameLabel: c.release.Name}.String()
	err := c.secrets.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return fmt.Errorf("delete the records of release %s: %w", c.release, err)
	}
	for _, known := range history {
		// The selector misses a record whose name label was changed.
		if known.Secret.Labels[record.NameLabel] != c.release.Name {
			if err := c.delete(known.Secret.Name); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete record %s: %w", known.Secret.Name, err)
			}
		}
		c.deleted(known.Secret)
	}
	return nil
}

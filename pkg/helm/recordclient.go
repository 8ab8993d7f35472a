// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package helm

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/helm/record"
	"github.com/example/demoapp-controller/pkg/overlay"
	"github.com/example/demoapp-controller/pkg/ssa"
)

// recordClient reads and writes the release records of one operation. Its requests have a separate
// deadline, because the outcome of an operation is recorded even after the operation's deadline. It
// notes each answer in the index. Writes are answered with only the metadata of the Secrets, because
// the rest equals the request.
type recordClient struct {
	core    corev1client.CoreV1Interface
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
	return c.core.Secrets(c.release.Namespace).Get(ctx, name, metav1.GetOptions{})
}

func (c *recordClient) create(secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
	return c.write(c.core.RESTClient().Post(), secret)
}

func (c *recordClient) update(secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
	return c.write(c.core.RESTClient().Put().Name(secret.Name), secret)
}

func (c *recordClient) write(request *rest.Request, secret *corev1.Secret) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := c.context()
	defer cancel()
	written := &metav1.PartialObjectMetadata{}
	err := c.to(request, "PartialObjectMetadata").Body(secret).Do(ctx).Into(written)
	if err != nil {
		return nil, err
	}
	c.flights.Wrote(c.release, written)
	c.view.Wrote(record.Slim(&written.ObjectMeta))
	return written, nil
}

// to addresses the Secrets of the release's namespace. The API server answers with an object of a
// kind of meta.k8s.io.
func (c *recordClient) to(request *rest.Request, kind string) *rest.Request {
	accept := fmt.Sprintf("%s;as=%s;g=meta.k8s.io;v=v1", runtime.ContentTypeProtobuf, kind)
	return request.Namespace(c.release.Namespace).Resource("secrets").SetHeader("Accept", accept)
}

func (c *recordClient) delete(name string) error {
	ctx, cancel := c.context()
	defer cancel()
	err := c.core.Secrets(c.release.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if err == nil || ssa.IsGone(err, name) {
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
	err := c.to(c.core.RESTClient().Delete(), "PartialObjectMetadataList").Param("labelSelector", record.SelectorOf(c.release.Name)).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("delete the records of release %s: %w", c.release, err)
	}
	for _, known := range history {
		// The selector misses a record whose name label was changed.
		if known.Secret.Labels[record.NameLabel] != c.release.Name {
			if err := c.delete(known.Secret.Name); err != nil && !ssa.IsGone(err, known.Secret.Name) {
				return fmt.Errorf("delete record %s: %w", known.Secret.Name, err)
			}
		}
		c.deleted(known.Secret)
	}
	return nil
}

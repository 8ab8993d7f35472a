// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"context"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
)

// Credentials are the Secrets with the credentials of servers. They have no owner: they
// outlive the server, as its volume does, because the volume accepts no other passwords.
type Credentials struct {
	secrets *datastore.Secrets
	claims  *datastore.Claims
}

// NewCredentials returns the Secrets with a label whose value is the name of their owner. The
// volume claims have the label, too.
func NewCredentials(env child.Informers, kube kubernetes.Interface, label string) (*Credentials, error) {
	secrets, err1 := datastore.NewSecrets(env, kube, datastore.Layout{
		Label: label, Names: map[string]string{KeyUsername: username, KeyDatabase: Database},
		Reserved: []string{"root", "mysql", "sys"}, Password: KeyPassword, Generated: []string{KeyRootPassword},
	})
	claims, err2 := datastore.NewClaims(env, kube, label)
	return &Credentials{secrets, claims}, errors.Join(err1, err2)
}

// Watch queues an owner when its Secret or a volume claim of its server changes.
func (c *Credentials) Watch(loop child.Loop) error {
	return errors.Join(c.secrets.Watch(loop), c.claims.Watch(loop))
}

// Ensure creates the Secret of a server, unless a volume may have data that belongs to lost
// passwords. See [datastore.Secrets.Ensure].
func (c *Credentials) Ensure(ctx context.Context, owner metav1.Object, server Server) (*datastore.Problem, error) {
	volumes := c.claims.Existing(cache.MetaObjectToName(owner), server.Name)
	_, problem, err := c.secrets.Ensure(ctx, owner, server.CredentialsSecret(), volumes)
	return problem, err
}

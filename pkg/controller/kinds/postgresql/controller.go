// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
	"github.com/example/demoapp-controller/pkg/controller/kinds/postgresql/certificates"
	databaseclient "github.com/example/demoapp-controller/pkg/generated/clientset/versioned/typed/database/v1"
	"github.com/example/demoapp-controller/pkg/images"
)

// Name is the controller's name in logs and metrics.
const Name = "postgresql"

// Kind is the kind of the owners of the children.
var Kind = databasev1.SchemeGroupVersion.WithKind("PostgreSQL")

type (
	pass = kind.Pass[*databasev1.PostgreSQL]
	loop = kind.Loop[*databasev1.PostgreSQL, databasev1.PostgreSQLStatus]
)

// layout has the keys of the Secret with the credentials.
var layout = datastore.Layout{
	Label:    databasev1.LabelPostgreSQL,
	Names:    map[string]string{databasev1.KeyUsername: database, databasev1.KeyDatabase: database},
	Reserved: []string{"none", "postgres", "public", "replication", "template0", "template1"},
	Password: databasev1.KeyPassword, Generated: []string{databasev1.KeyReplicationPassword},
}

// Observed are the objects of PostgreSQLs that are no children.
type Observed struct {
	secrets      *datastore.Secrets
	claims       *datastore.Claims
	pods         child.Readiness
	certificates certificates.Secrets
}

// NewObserved returns the objects with the label of PostgreSQLs.
func NewObserved(env child.Informers, kube kubernetes.Interface) (*Observed, error) {
	secrets, err1 := datastore.NewSecrets(env, kube, layout)
	claims, err2 := datastore.NewClaims(env, kube, databasev1.LabelPostgreSQL)
	pods, err3 := child.NewReadiness(env, kube, databasev1.LabelPostgreSQL)
	certified, err4 := certificates.New(env, kube)
	return &Observed{secrets, claims, pods, certified}, errors.Join(err1, err2, err3, err4)
}

type postgreSQLs struct {
	*Observed

	children *child.Set
	backups  *Backups
	images   images.Table
	domain   naming.Domain
	// destination is where the dumps are kept of databases that name no destination.
	destination datastore.DefaultDestination
}

// New wires the controller of PostgreSQLs and of their children. It starts nothing. [BackupKind] is
// an optional kind of children. pull says where the images are pulled from. domain is for the
// endpoint in the status, and for the certificates. destination is for backups without their own.
func New(
	client databaseclient.PostgreSQLsGetter, children *child.Set, observed *Observed, backups *Backups, pull images.Table, domain naming.Domain,
	destination datastore.DefaultDestination, deps kind.Deps,
) (*loop, error) {
	children = children.ExplainedBy(observed.pods.PodHealth)
	c := &postgreSQLs{observed, children, backups, pull, domain, destination}
	letGo, orphaned := child.LettingGo(children, func(p *databasev1.PostgreSQL) childv1alpha1.ChildrenStatus { return p.Status.Children },
		"Kept the children, the PersistentVolumeClaims and the Secret with the credentials")
	l, err := kind.New(kind.Definition[*databasev1.PostgreSQL, databasev1.PostgreSQLStatus]{
		Name: Name, GroupVersionKind: Kind, FieldManager: child.FieldManager,
		Client: func(namespace string) controller.Patcher[*databasev1.PostgreSQL] {
			return client.PostgreSQLs(namespace)
		},
		Status:     func(p *databasev1.PostgreSQL) *databasev1.PostgreSQLStatus { return &p.Status },
		Conditions: func(s *databasev1.PostgreSQLStatus) *[]metav1.Condition { return &s.Conditions },
		Steps:      c.reconcile,
		Finalizer:  databasev1.Finalizer,
		Finalize:   c.finalize,
		LetGo:      letGo,
		Orphaned:   orphaned,
		Hold: func(written, next databasev1.PostgreSQLStatus) time.Duration {
			return child.Hold(written.Conditions, next.Conditions)
		},
		Events:   transitions,
		Gates:    []kind.Gate{kind.HeldFor("key", databasev1.ReasonCredentialsMissing, databasev1.ReasonCredentialsInvalid, databasev1.ReasonCertificateMissing)},
		Warnings: []kind.Warning{datastore.UnmadeBackups},
	}, deps)
	if err != nil {
		return nil, err
	}
	return l, errors.Join(children.Watch(l), observed.secrets.Watch(l), observed.claims.Watch(l), observed.certificates.Watch(l))
}

func (c *postgreSQLs) reconcile(ctx context.Context, p *pass) error {
	primary := p.Object.Name + "-0"
	o := observation{domain: c.domain, primaryReady: c.pods.IsReady(p.Object.Namespace, primary), backup: c.backups.of(p.Object)}
	destination := destinationOf(p.Object, c.destination)
	o.hasDestination = destination != nil
	o.node, o.terminated = c.pods.Termination(p.Object.Namespace, primary)
	o.unused = c.claims.Unused(p.Key(), *p.Object.Spec.Replicas)
	o.initialized = wasReady(p.Object) || o.primaryReady
	v := c.claims.Decide(p.Key(), templateOf(p.Object))
	mayHaveData := o.initialized || v.StandbySince.Before(&p.Object.CreationTimestamp) && !v.StandbySince.IsZero()
	names, problem, err := c.secrets.Ensure(ctx, p.Object, credentialsName(p.Object.Name), v)
	if problem == nil && err == nil || len(p.Object.Status.Children.Applied) > 0 {
		// Without credentials no server is created. Servers that exist are kept.
		certified, certErr := c.certify(ctx, p)
		if !certified.renewal.IsZero() {
			p.RequeueAfter(certified.renewal.Sub(p.Now))
		}
		o.uncertified, problem = certified.missing, datastore.First(problem, certified.problem)
		stays := func(got *child.Observed) bool { return got != nil && o.uncertified != "" }
		children := slices.Concat(certified.children, desired(p.Object, c.images, v.Template, mayHaveData, stays), desiredBackup(p.Object, destination, names, o.initialized))
		var childErr error
		o.state, childErr = c.children.Ensure(ctx, p.Object, &p.Object.Status.Children, p.Now, children...)
		err = errors.Join(err, certErr, childErr)
	}
	p.Object.Status.Claims = c.usedClaims(p)
	notExpandable, resizeErr := c.claims.Resize(ctx, v)
	err = errors.Join(err, resizeErr,
		c.pods.Inherit(ctx, p.Object, o.state.Of("StatefulSet", p.Object.Name), p.Now, p.RequeueAfter),
		c.claims.Inherit(ctx, p.Object, p.Now, p.RequeueAfter),
		c.secrets.Inherit(ctx, p.Object, credentialsName(p.Object.Name), p.Now, p.RequeueAfter))
	summarize(p, o, datastore.First(problem, v.Problem, notExpandable), err)
	return err
}

func templateOf(p *databasev1.PostgreSQL) datastore.Template {
	t := datastore.Template{Version: p.Spec.Version, Storage: p.Spec.Storage}
	if p.Spec.StorageClassName != nil {
		t.Class = *p.Spec.StorageClassName
	}
	return t
}

// usedClaims returns the claims on which the servers have run.
func (c *postgreSQLs) usedClaims(p *pass) []databasev1.UsedClaim {
	servers := *p.Object.Spec.Replicas
	if !hasRun(p.Object) {
		servers = 0
	}
	return c.claims.Used(p.Key(), p.Object.Status.Claims, servers)
}

func hasRun(p *databasev1.PostgreSQL) bool {
	return child.HasApplied(p.Status.Children, "StatefulSet", p.Name)
}

// finalize deletes the data, if the deletion policy says so. The garbage collector deletes the
// children.
func (c *postgreSQLs) finalize(ctx context.Context, p *pass) (event.Event, error) {
	if p.Object.Spec.DeletionPolicy != databasev1.DeletionPolicyDelete {
		return datastore.Retained(""), nil
	}
	done, wait, err := datastore.Delete(ctx, c.claims, c.secrets, datastore.Deletion{
		Owner: p.Object, Kind: Kind, Seen: p.DeletionSeen, Credentials: credentialsName(p.Object.Name),
		Used: c.usedClaims(p), Ran: hasRun(p.Object),
	}, p.Now)
	if err != nil {
		p.Conditions().MarkReconciling(apimeta.ReasonFinalizerFailed, "Deletion waits: "+err.Error())
	} else if wait > 0 {
		p.RequeueAfter(wait)
		err = kind.ErrDeletionWaits
	}
	return done, err
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"fmt"
	"slices"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	childv1alpha1 "github.com/example/demoapp-controller/pkg/apis/child/v1alpha1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	apimeta "github.com/example/demoapp-controller/pkg/apis/meta/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kind/event"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/datastore"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/naming"
)

// observation has the findings of a pass.
type observation struct {
	state        child.State
	primaryReady bool
	// initialized says that the primary was ready once.
	initialized bool
	backup      *backupv1.Backup
	// hasDestination says that the field or the operator names where dumps are kept.
	hasDestination bool
	// node is the node of a primary whose pod is being deleted, and terminated the end of the pod's
	// grace period. They are empty for another primary.
	node       string
	terminated metav1.Time
	// uncertified is the name of the Secret with the certificate for which the servers wait.
	uncertified string
	// unused are the claims of servers that no longer exist.
	unused []string
	// domain is for the endpoint.
	domain naming.Domain
}

// wasReady reports whether the primary was ready once.
func wasReady(p *databasev1.PostgreSQL) bool {
	ready := meta.FindStatusCondition(p.Status.Conditions, databasev1.ConditionDatabaseReady)
	return ready != nil && ready.Reason != databasev1.ReasonStarting
}

// summarize makes the status from the findings of a pass.
func summarize(p *pass, o observation, problem *datastore.Problem, err error) {
	s := &p.Object.Status
	servers := o.state.Of("StatefulSet", p.Object.Name).Health
	s.ObservedGeneration = p.Object.Generation
	s.ReadyReplicas = servers.ReadyReplicas
	s.Endpoint = fmt.Sprintf("%s:%d", o.domain.Host(p.Object.Name, p.Object.Namespace), port)
	if o.backup != nil && o.backup.Status.LastSuccessfulTime != nil {
		s.LastBackupTime = o.backup.Status.LastSuccessfulTime
	}
	s.UnusedClaims = o.unused
	child.Report(p, o.state.Without("Backup"), err)
	if o.uncertified != "" && err == nil {
		p.Conditions().MarkReconciling(apimeta.ReasonProgressing, fmt.Sprintf("The servers wait for Secret %q", o.uncertified))
	}
	if problem != nil && err == nil {
		problem.Report(p)
	}
	reportDatabase(p, o)
	reportBackup(p, o)
	degraded := reportDegraded(p, o)
	s.Phase = phase(p.Object, servers.Replicas, degraded || o.initialized && s.ReadyReplicas < *p.Object.Spec.Replicas)
}

func reportDatabase(p *pass, o observation) {
	status, reason, message := metav1.ConditionFalse, databasev1.ReasonStarting, "The primary was not ready yet"
	switch {
	case o.primaryReady:
		status, reason, message = metav1.ConditionTrue, databasev1.ReasonAvailable, "The primary accepts writes"
	case !o.terminated.IsZero() && !p.Now.Before(o.terminated.Add(nodeLostAfter)):
		reason, message = databasev1.ReasonNodeLost, nodeLost(p.Object, o.node)
	case o.initialized:
		reason, message = databasev1.ReasonUnavailable, fmt.Sprintf("The primary is not ready: see the events and the log of Pod %q", p.Object.Name+"-0")
		if !o.terminated.IsZero() {
			p.RequeueAfter(o.terminated.Add(nodeLostAfter).Sub(p.Now))
		}
	}
	p.Conditions().Set(databasev1.ConditionDatabaseReady, status, reason, message)
}

// nodeLostAfter is the time after the grace period of a deleted pod within which a kubelet confirms
// the end of the pod.
const nodeLostAfter = 30 * time.Second

// nodeLost says how a user starts a primary on another node. A pod is started once only, so
// Kubernetes waits until it knows that the pod has ended on the lost node.
func nodeLost(p *databasev1.PostgreSQL, node string) string {
	return fmt.Sprintf("Pod %[1]q was deleted, and Node %[2]q does not confirm that it has ended: start the node again. If the node is powered "+
		"off: kubectl taint node %[2]s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute. If the node no longer exists: kubectl delete pod "+
		"%[1]s -n %[3]s --force. If the volume is lost with the node, then fail over: docs/postgresql.md#failover", p.Name+"-0", node, p.Namespace)
}

// reportDegraded sets Ready to False although the children are healthy, or replaces its message:
// while the primary, which was ready once, is not ready, and while backups are not made that are
// configured or required. It reports whether it did so.
func reportDegraded(p *pass, o observation) bool {
	conditions := p.Conditions()
	ready, _ := conditions.Current(apimeta.ConditionReady)
	database, _ := conditions.Current(databasev1.ConditionDatabaseReady)
	_, stalled := conditions.Current(apimeta.ConditionStalled)
	switch {
	case stalled:
		return false
	case database.Reason == databasev1.ReasonNodeLost, o.initialized && !o.primaryReady && ready.Status == metav1.ConditionTrue:
		conditions.MarkReconciling(database.Reason, database.Message)
		return true
	default:
		required := p.Object.Spec.Backup != nil && p.Object.Spec.Backup.Required
		return datastore.ReportUnmade(conditions, required, databasev1.ReasonBackupDisabled, databasev1.ReasonNoDestination)
	}
}

// backupFields maps fields of the Backup to fields of the PostgreSQL.
var backupFields = datastore.BackupFields("spec.backup")

func reportBackup(p *pass, o observation) {
	status, reason, message := metav1.ConditionFalse, databasev1.ReasonBackupDisabled, "spec.backup.enabled is not true"
	name := backupName(p.Object)
	switch backup := o.state.Of("Backup", name); {
	case !backupEnabled(p.Object):
	case slices.Contains(o.state.Unserved, childv1alpha1.ChildName("Backup/"+name)):
		reason, message = databasev1.ReasonBackupUnserved, "The kind Backup is not installed: install artifacts/kinds/backup"
	case !o.hasDestination && backup.Name == "":
		reason, message = databasev1.ReasonNoDestination, datastore.NoDestination("spec.backup")
	case !o.initialized:
		reason, message = databasev1.ReasonWaitingForDatabase, "The Backup is created when the database is ready for the first time"
	case o.backup != nil && o.backup.Spec.Suspend:
		suspended := datastore.Suspended(o.backup)
		reason, message = suspended.Reason, suspended.Message
	case backup.Health.Status == kstatus.CurrentStatus && !o.hasDestination:
		status, reason, message = metav1.ConditionTrue, databasev1.ReasonDestinationRetained, datastore.DestinationRetained(name, "spec.backup")
	case backup.Health.Status == kstatus.CurrentStatus:
		status, reason, message = metav1.ConditionTrue, databasev1.ReasonBackupReady, fmt.Sprintf("Backup %q is Ready", name)
	default:
		reason, message = databasev1.ReasonBackupNotReady, fmt.Sprintf("Backup %q is not Ready: %s", name, backupFields.Replace(backup.Health.Message))
	}
	p.Conditions().Set(databasev1.ConditionBackupConfigured, status, reason, message)
}

// phase summarizes the conditions.
func phase(p *databasev1.PostgreSQL, servers int32, degraded bool) string {
	switch conditions := p.Status.Conditions; {
	case meta.IsStatusConditionTrue(conditions, apimeta.ConditionStalled):
		return databasev1.PhaseFailed
	case meta.IsStatusConditionTrue(conditions, apimeta.ConditionReady):
		return databasev1.PhaseRunning
	case servers == 0:
		return databasev1.PhasePending
	case degraded:
		return databasev1.PhaseDegraded
	default:
		return databasev1.PhaseDeploying
	}
}

func transitions(before, after *databasev1.PostgreSQL) []event.Event {
	return child.Events(before.Status.Children, after.Status.Children, before.Status.Conditions, after.Status.Conditions)
}

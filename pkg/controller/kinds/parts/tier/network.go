// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package tier

import (
	corev1 "k8s.io/api/core/v1"

	backupv1 "github.com/example/demoapp-controller/pkg/apis/backup/v1"
	databasev1 "github.com/example/demoapp-controller/pkg/apis/database/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/workload"
)

// anywhere means every address, because the pods of the ingress controller are unknown.
const anywhere = "anywhere"

// paths are the connections that the components of a hardened application accept and open.
var paths = []workload.Path{
	{From: anywhere, To: Frontend},
	{From: Frontend, To: Backend},
	{From: Monitoring, To: Backend},
	{From: Backend, To: Cache},
	{From: Backend, To: Database},
	{From: Database, To: Database},
	{From: Backup, To: Database},
}

// policies returns the NetworkPolicy of a component of a hardened application.
func (a Application) policies(name string) []child.Desired {
	if !a.Hardened {
		return nil
	}
	return []child.Desired{workload.NetworkPolicy(a.named(name, "-"+name), name, a.peers(), paths)}
}

// peers returns the existing ends of paths. The namespace of Prometheus is selected by name,
// because tenants could set any label on their pods, but cannot rename their namespaces.
func (a Application) peers() map[string]workload.Peer {
	database := a.Name + databaseSuffix
	peers := map[string]workload.Peer{
		anywhere: {},
		Frontend: {Pods: a.Labels(Frontend), Port: a.Frontend.Port},
		Backend:  {Pods: a.Labels(Backend), Port: a.Backend.Port},
		Database: {Pods: map[string]string{databasev1.LabelPostgreSQL: database}, Port: a.Database.port()},
	}
	if a.Database.isMySQL() {
		peers[Database] = workload.Peer{Pods: a.Labels(Database), Port: a.Database.port()}
	}
	if a.Cache != nil {
		peers[Cache] = workload.Peer{Pods: a.Labels(Cache), Port: a.Cache.Port}
	}
	if a.Database.Backups != nil {
		peers[Backup] = workload.Peer{Pods: map[string]string{backupv1.LabelBackup: database + backupSuffix}}
	}
	if a.Monitored {
		peers[Monitoring] = workload.Peer{
			Pods:       map[string]string{"app.kubernetes.io/name": "prometheus"},
			Namespaces: map[string]string{corev1.LabelMetadataName: "monitoring"},
		}
	}
	return peers
}

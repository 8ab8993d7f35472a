// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// optInKind is a kind that is no part of the default installation: a folder in artifacts/kinds.
type optInKind string

var (
	// lateKinds are opted in while the operator runs.
	lateKinds = []optInKind{"memcached", "memcachedbackup"}
	// earlyKinds are opted in before the operator starts. It asks for the permissions of kinds that wait at growing
	// intervals, so a kind that is opted in late in the tour would start late.
	earlyKinds = []optInKind{"website", "webapp", "postgresql", "appconfig", "backup", "appstack", "ecommerceplatform"}
	// optInKinds are all kinds that are opted in.
	optInKinds = slices.Concat(lateKinds, earlyKinds)
)

// file returns the path of a file of the kind.
func (k optInKind) file(name string) string {
	return fmt.Sprintf("artifacts/kinds/%s/%s.yaml", string(k), name)
}

// optIn installs the CRD and the RBAC of the kind.
func (k optInKind) optIn() []act {
	return []act{
		{command: fmt.Sprintf("kubectl apply -f %s -f %s", k.file("crd"), k.file("rbac"))},
		{command: fmt.Sprintf("kubectl wait -f %s --for=condition=Established --timeout=%.0fs", k.file("crd"), waitLimit.Seconds())},
	}
}

// apply applies the example of the kind, and waits until its object is ready.
func (k optInKind) apply(object string) []act {
	return []act{{command: in("apply -f " + k.file("example"))}, waitFor(object, "condition=Ready")}
}

func optIn() step {
	s := step{
		title: "Kinds in Go are opted in",
		note:  "Each kind has its CRD and its permissions in a folder of its own. The operator runs the kinds whose CRD and permissions it finds.",
	}
	for _, kind := range earlyKinds {
		s.acts = append(s.acts, kind.optIn()...)
	}
	return s
}

func website() step {
	const site, deployment = "website/website-sample", "deployment website-sample"
	hash := field(deployment, `.spec.template.metadata.annotations.webapp\.example\.com/html-hash`)
	var before string
	return step{
		title: "A page is one object",
		note: "The operator keeps a ConfigMap with the page of a Website, a Deployment that serves it, and a Service. kubectl scale " +
			"works on the Website. A new page replaces the pods.",
		acts: append(optInKind("website").apply(site),
			act{
				command: in("get websites"),
				want:    shows("website-sample", "http://website-sample."+tourNamespace+".svc.cluster.local"),
			},
			act{command: in("scale " + site + " --replicas=3")},
			waitFor(site, "jsonpath='{.status.readyReplicas}'=3"),
			act{command: hash, keep: remember(&before)},
			act{command: in("patch " + site + ` --type=merge -p '{"spec":{"html":"<h1>A new page</h1>"}}'`)},
			waitFor(site, "condition=Ready"),
			act{command: field("configmap website-sample", `.data.index\.html`), want: prints("<h1>A new page</h1>")},
			act{command: hash, want: differs(&before)},
			act{command: field(deployment, ".status.updatedReplicas"), want: prints("3")},
			deleteAndAwait("service website-sample"),
		),
	}
}

func webApp() step {
	const app = "webapp/webapp-sample"
	return step{
		title: "A web application is one object",
		note:  "The operator keeps a Deployment and a Service for a WebApp, whose pods meet the restricted profile.",
		acts: append(optInKind("webapp").apply(app),
			act{command: in("get webapps"), want: shows("webapp-sample", "Running")},
			act{command: in("patch " + app + ` --type=merge -p '{"spec":{"replicas":3}}'`)},
			waitFor(app, "jsonpath='{.status.readyReplicas}'=3"),
			deleteAndAwait("service webapp-sample"),
		),
	}
}

// simulatedKubelet is the kubelet version of the nodes that hack/localcluster creates.
const simulatedKubelet = "kwok"

// hasSimulatedNodes reports whether all nodes are those of hack/localcluster. They mount no volumes, so the tour creates
// PersistentVolumes without storage. On other nodes, databases need a default StorageClass: without one, it returns an error.
func hasSimulatedNodes(ctx context.Context, sh shell) (bool, error) {
	const (
		kubelets = "kubectl get nodes -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}'"
		classes  = "kubectl get storageclasses -o " +
			`jsonpath='{.items[?(@.metadata.annotations.storageclass\.kubernetes\.io/is-default-class=="true")].metadata.name}'`
	)
	output, err := sh.run(ctx, kubelets)
	if err != nil {
		return false, fmt.Errorf("look for simulated nodes: %s: %w", strings.TrimSpace(output), err)
	}
	versions := strings.Fields(output)
	if len(versions) > 0 && !slices.ContainsFunc(versions, func(version string) bool { return version != simulatedKubelet }) {
		return true, nil
	}
	output, err = sh.run(ctx, classes)
	if err != nil {
		return false, fmt.Errorf("look for a default StorageClass: %s: %w", strings.TrimSpace(output), err)
	}
	if strings.TrimSpace(output) == "" {
		return false, errors.New("this cluster has no default StorageClass, which the databases of the tour need; " +
			"make a StorageClass the default, or take another cluster")
	}
	return false, nil
}

// createVolumes creates the volumes of the databases for simulated nodes, where their paths do not exist.
func createVolumes() act {
	const volume = `{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"demoapp-tour-'$i'","labels":{"` + tourLabel + `":"true"}},` +
		`"spec":{"capacity":{"storage":"10Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/demoapp-tour/'$i'"}}}`
	return act{command: "for i in 1 2 3 4 5; do echo '" + volume + "' | kubectl create -f - || exit; done"}
}

// postgreSQL creates the volumes of this step and of the next ones if the nodes are simulated.
func postgreSQL(simulatedNodes bool) step {
	const database = "postgresql/postgresql-sample"
	s := step{
		title: "A database has its password and its standbys",
		note:  "The password is generated once, and is in no other object. A further replica is a standby, which follows the primary.",
		acts: append(optInKind("postgresql").apply(database),
			act{
				command: in("get secret,service,statefulset -o name"),
				want: shows("secret/postgresql-sample-credentials", "service/postgresql-sample-headless", "service/postgresql-sample-read",
					"statefulset.apps/postgresql-sample"),
			},
			act{command: in("patch " + database + ` --type=merge -p '{"spec":{"replicas":3}}'`)},
			waitFor(database, "jsonpath='{.status.readyReplicas}'=3"),
			act{command: in("get postgresqls"), want: shows("postgresql-sample", "17", "10Gi")},
			deleteAndAwait("service postgresql-sample-read"),
		),
	}
	if simulatedNodes {
		s.note += " The nodes here are simulated, so no server runs: the tests replicate with real ones."
		s.acts = append([]act{createVolumes()}, s.acts...)
	}
	return s
}

func appConfig() step {
	const config, deployment = "appconfig/appconfig-sample", "deployment/appconfig-sample"
	const reason = `jsonpath='{.status.conditions[?(@.type=="Ready")].reason}'=`
	return step{
		title: "Templates become a ConfigMap, and workloads follow",
		note: "The values of an environment override the others. New content rolls the workloads that use it and have the label. " +
			"A bad template changes nothing, and the condition names its line.",
		acts: append(optInKind("appconfig").apply(config),
			act{
				command: field("configmap shop-config", `.data.application\.properties`),
				want:    shows("environment=prod", "db.example.com:5432/shop", "log.level=INFO", "feature.checkout=true"),
			},
			act{command: in("patch " + config + ` --type=merge -p '{"spec":{"environments":{"prod":{"logLevel":"warn"}}}}'`)},
			waitFor(config, "jsonpath='{.status.reloaded[0]}'=Deployment/appconfig-sample"),
			act{command: in(fmt.Sprintf("rollout status %s --timeout=%.0fs", deployment, waitLimit.Seconds()))},
			act{command: field("configmap shop-config", ".data.LOG_LEVEL"), want: prints("warn")},
			act{command: in("patch " + config + ` --type=merge -p '{"spec":{"config":{"LOG_LEVEL":"{{ .Values.level }}"}}}'`)},
			waitFor(config, reason+"RenderFailed"),
			act{command: said(config, "Rendered"), want: shows("spec.config.LOG_LEVEL: line 1: .Values.level is not set")},
			act{command: field("configmap shop-config", ".data.LOG_LEVEL"), want: prints("warn")},
		),
	}
}

func backup() step {
	const object, cronJob = "backup/backup-sample", "cronjob backup-sample-cronjob"
	return step{
		title: "Backups run by a schedule",
		note:  "The operator keeps a CronJob that dumps a database and uploads the dump. Passwords stay in their Secrets.",
		acts: append(optInKind("backup").apply(object),
			act{command: in("get backups"), want: shows("backup-sample", "0 2 * * *")},
			act{command: in("get cronjobs,configmaps -o yaml"), want: shows("concurrencyPolicy: Forbid").without("replace-me")},
			act{command: in("patch " + object + ` --type=merge -p '{"spec":{"suspend":true}}'`)},
			waitFor("cronjob/backup-sample-cronjob", "jsonpath='{.spec.suspend}'=true"),
			deleteAndAwait(cronJob),
		),
	}
}

func appStack() step {
	const stack = "appstack/appstack-sample"
	return step{
		title: "A stack starts in order",
		note: "An AppStack creates a PostgreSQL, then a cache, a backend and a frontend. Each starts when those before it are ready. " +
			"The backend gets the password by a reference to its Secret.",
		acts: append(optInKind("appstack").apply(stack),
			act{
				command: field(stack, `range .status.components[*]}{.name}{" "}{.ready}{"\n"}{end`),
				want:    prints("database true\ncache true\nbackend true\nfrontend true"),
			},
			act{command: in("get postgresql,deployment -o name"), want: shows("postgresql.database.example.com/appstack-sample-db")},
			deleteAndAwait("deployment appstack-sample-backend"),
		),
	}
}

func ecommercePlatform() step {
	const platform = "ecommerceplatform/shop-sample"
	return step{
		title: "A platform fits its environment",
		note: "In production, NetworkPolicies allow only the paths between the components of an EcommercePlatform. Without the API of " +
			"Prometheus, a condition says so, and the rest runs.",
		acts: append(optInKind("ecommerceplatform").apply(platform),
			act{command: in("get ecommerceplatforms"), want: shows("shop-sample", "development", "Running")},
			act{command: field(platform, ".status.endpoints"), want: shows("frontend", "backend", "database", "cache")},
			act{command: in("get networkpolicies -l platform=shop-sample"), want: shows("No resources found")},
			act{command: in("patch " + platform + ` --type=merge -p '{"spec":{"environment":"production"}}'`)},
			waitFor(platform, "jsonpath='{.status.observedGeneration}'=2"),
			act{command: in("get networkpolicies -l platform=shop-sample"), want: shows("shop-sample-backend", "shop-sample-database")},
			deleteAndAwait("ingress shop-sample"),
		),
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build integration

package plugin

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/example/demoapp-controller/pkg/inspect"
)

// app returns the YAML of a DemoApp web with further lines of its spec.
func app(spec string) string { return named("web", spec) }

func named(name, spec string) string {
	return fmt.Sprintf(`
apiVersion: demo.example.com/v1alpha1
kind: DemoApp
metadata: {name: %s}
spec:
  apiKey: key-of-an-app
%s`, name, spec)
}

// stuck is a DemoApp whose pods' status the tests play: the simulated nodes leave the pods of this
// registry alone.
var stuck = app("  image: registry.invalid/web:1")

const postgresql = `
apiVersion: database.example.com/v1
kind: PostgreSQL
metadata: {name: db}
spec: {version: "17", storage: 1Gi, replicas: 1}
`

const webapp = `
apiVersion: example.com/v1
kind: WebApp
metadata: {name: front}
spec:
  replicas: 1
  image: registry.invalid/front:1
  port: 8080
`

var blockedWebApp = strings.Replace(webapp, "registry.invalid/front:1", "blocked.example.com/front:1", 1)

const backup = `
apiVersion: backup.example.com/v1
kind: Backup
metadata: {name: nightly}
spec:
  source: {type: postgresql, connection: {host: db, port: 5432, database: shop, credentialsSecret: login}}
  destination: {type: s3, bucket: backups, prefix: shop, endpoint: 'http://minio:9000', credentialsSecret: bucket}
  schedule: 0 2 * * *
  retention: 30d
`

const platform = `
apiVersion: platform.example.com/v1
kind: EcommercePlatform
metadata: {name: shop}
spec:
  environment: development
  frontend: {image: 'nginxinc/nginx-unprivileged:1.27-alpine', replicas: 1}
  backend: {image: 'nginxinc/nginx-unprivileged:1.27-alpine', replicas: 1}
  database: {type: postgresql, version: '17', storage: 1Gi, replicas: 1}
  monitoring: {enabled: false}
  ingress: {host: shop.$NAMESPACE.example.com}
`

// appconfig returns the YAML of an AppConfig of the application shop.
func appconfig(name string) string {
	return "{apiVersion: config.example.com/v1, kind: AppConfig, metadata: {name: " + name + "}, spec: {application: shop, environment: prod, config: {A: b}}}"
}

// caches returns the YAML of an object web of a kind of the watches file.
func caches(kind, spec string) string {
	return fmt.Sprintf("{apiVersion: caches.example.com/v1, kind: %s, metadata: {name: web}, spec: {%s}}\n", kind, spec)
}

// deployment returns the YAML of a Deployment extra with the spec of its pods.
func deployment(pods string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: extra}, spec: {selector: {matchLabels: {app: extra}}, " +
		"template: {metadata: {labels: {app: extra}}, spec: {" + pods + "}}}}"
}

// noise returns a text that does not compress.
func noise(size int) string {
	random := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(random)
	return base64.StdEncoding.EncodeToString(random)[:size]
}

// waiting returns the status of a pod whose container waits.
func waiting(reason, message string) string {
	return fmt.Sprintf("containerStatuses: [{name: web, image: registry.invalid/web:1, ready: false, restartCount: 3, "+
		"imageID: '', state: {waiting: {reason: %s, message: %q}}}]", reason, message)
}

// crashed returns the status of a pod whose container crashes repeatedly.
func crashed(code int, reason string) string {
	return fmt.Sprintf("containerStatuses: [{name: web, image: registry.invalid/web:1, ready: false, restartCount: 3, imageID: '', "+
		"state: {waiting: {reason: CrashLoopBackOff, message: back-off 5m0s}}, lastState: {terminated: {exitCode: %d, reason: %s}}}]", code, reason)
}

// unscheduled returns the status of a pod that no node takes.
func unscheduled(message string) string {
	return creating + fmt.Sprintf("\nconditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, message: %q}]", message)
}

const creating = "containerStatuses: [{name: web, image: registry.invalid/web:1, ready: false, restartCount: 0, imageID: '', " +
	"state: {waiting: {reason: ContainerCreating}}}]"

const running = "phase: Running\ncontainerStatuses: [{name: web, image: registry.invalid/web:1, ready: false, restartCount: 0, imageID: '', " +
	"state: {running: {}}}]"

const (
	waits = inspect.Waits
	acts  = inspect.NeedsPerson
)

// faults are the faults that keep objects from being ready, by the faulty part.
var faults = []fault{
	// The object itself.
	{name: "suspended by its spec", objects: app("  suspend: true"), object: "demoapp/web", cause: "DemoApp/web", verdict: acts, text: `\"suspend\":false`},
	{
		name:    "suspended by an annotation",
		objects: "apiVersion: demo.example.com/v1alpha1\nkind: DemoApp\nmetadata: {name: web, annotations: {demo.example.com/paused: 'true'}}\nspec: {apiKey: key-of-an-app}",
		object:  "demoapp/web", cause: "DemoApp/web", verdict: acts, text: "demo.example.com/paused-",
	},
	{name: "invalid values", objects: app("  values: {resources: 7}"), object: "demoapp/web", cause: "DemoApp/web", verdict: acts, text: "resources"},
	{
		name: "dependency cycle", objects: app("  waitFor: other") + "\n---" + named("other", "  waitFor: web"), object: "demoapp/web",
		cause: "DemoApp/", verdict: acts, text: "web",
	},
	{
		name: "closed upgrade window", objects: app("  upgradeWindow: {schedule: 0 0 29 2 *, duration: 1m}"),
		change: app("  message: changed\n  upgradeWindow: {schedule: 0 0 29 2 *, duration: 1m}"), object: "demoapp/web",
		cause: "DemoApp/web", verdict: waits, text: "kubectl demoapp retry demoapp/web",
	},
	{
		name: "invalid schedule", objects: app(""), change: app("  message: changed\n  upgradeWindow: {schedule: 99 0 * * *, duration: 1m}"),
		object: "demoapp/web", cause: "DemoApp/web", verdict: acts, text: "schedule",
	},
	{
		name:    "invalid template of an AppConfig",
		objects: "apiVersion: config.example.com/v1\nkind: AppConfig\nmetadata: {name: conf}\nspec: {application: shop, environment: prod, config: {A: '{{ .Values.none.deeper }}'}}",
		object:  "appconfig/conf", cause: "AppConfig/conf", verdict: acts,
	},
	{
		name: "volume of a database", objects: postgresql, object: "postgresql/db", cause: "PersistentVolumeClaim/data-db-0", verdict: acts,
		text: "no storage class",
	},
	{name: "image that the operator blocks", objects: blockedWebApp, object: "webapp/front", cause: "WebApp/front", verdict: acts, text: "is blocked by"},
	{
		name: "license that is denied", objects: named("denied", ""), object: "demoapp/denied", cause: "DemoApp/denied", verdict: acts, text: "403",
	},
	{
		name: "license server that fails", objects: named("unanswered", ""), object: "demoapp/unanswered", cause: "DemoApp/unanswered", verdict: waits, text: "500",
	},

	// A kind of watches.yaml.
	{name: "values that the chart's schema refuses", objects: caches("Cache", "size: 1000"), object: "cache/web", cause: "Cache/web", verdict: acts, text: "size"},
	{name: "template that fails", objects: caches("Cache", "extra: [text]"), object: "cache/web", cause: "Cache/web", verdict: acts, text: "render chart cache"},
	{
		name: "record that is too large", objects: caches("Cache", "image: "+noise(700_000)), object: "cache/web", cause: "Cache/web", verdict: acts,
		text: "does not fit into a Secret",
	},
	{
		name: "immutable field", objects: caches("Cache", "selector: one"), change: caches("Cache", "selector: two"), object: "cache/web", cause: "Cache/web",
		verdict: acts, text: "immutable",
	},
	{
		name: "object of a kind without a CRD", objects: caches("Cache", "extra: [{apiVersion: caches.example.com/v1, kind: Widget, metadata: {name: a}}]"),
		object: "cache/web", cause: "CustomResourceDefinition/Widget", verdict: acts, text: "kubectl api-resources",
	},
	{
		name: "object outside the namespace", objects: caches("Confined", "extra: [{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: default}}]"),
		object: "confined/web", cause: "Confined/web", verdict: acts, text: "out of scope",
	},
	{
		name: "hook that fails", object: "cache/web", cause: "Job/prepare", verdict: acts, text: "DeadlineExceeded",
		objects: caches("Cache", "extra: [{apiVersion: batch/v1, kind: Job, metadata: {name: prepare, annotations: {helm.sh/hook: pre-install}}, "+
			"spec: {activeDeadlineSeconds: 1, template: {spec: {restartPolicy: Never, containers: [{name: a, image: 'registry.invalid/a:1'}]}}}}]"),
	},
	{
		name: "image of a kind of watches.yaml", objects: caches("Cache", "extra: ["+deployment("containers: [{name: a, image: 'registry.invalid/a:1'}]")+"]"),
		object: "cache/web", cause: "Pod/extra-", ready: `: ImagePullBackOff: the image "registry.invalid/a:1" cannot be pulled`, verdict: acts, text: "ImagePullBackOff",
	},
	{
		name: "ServiceAccount of pods", objects: caches("Cache", "extra: ["+deployment("serviceAccountName: nobody, containers: [{name: a, image: a}]")+"]"),
		object: "cache/web", cause: "ServiceAccount/nobody", verdict: acts, text: "does not exist",
	},
	{
		name: "pod security", object: "cache/web", cause: "Deployment/extra", verdict: acts, text: "violates PodSecurity",
		objects: "apiVersion: v1\nkind: Namespace\nmetadata: {name: $NAMESPACE, labels: {pod-security.kubernetes.io/enforce: baseline}}\n---\n" +
			caches("Cache", "extra: ["+deployment("hostNetwork: true, containers: [{name: a, image: a}]")+"]"),
	},
	{
		name: "ServiceAccount of releases that does not exist", objects: caches("Deputy", "size: 1"), object: "deputy/web", cause: "ServiceAccount/deployer",
		verdict: acts, text: "does not exist",
	},
	{
		name: "ServiceAccount of releases without permissions", object: "deputy/web", cause: "ServiceAccount/deployer", verdict: acts,
		objects: "{apiVersion: v1, kind: ServiceAccount, metadata: {name: deployer}}\n---\n" + caches("Deputy", "size: 1"),
		text:    "kubectl auth can-i --list --as=system:serviceaccount:$NAMESPACE:deployer",
	},
	{
		name: "permission of the operator", objects: caches("Cache", "extra: [{apiVersion: v1, kind: ResourceQuota, metadata: {name: a}}]"), object: "cache/web",
		cause: "ServiceAccount/demoapp-controller", verdict: acts, text: "resourcequotas",
	},
	{name: "kind that the operator does not serve", objects: caches("Stranger", "size: 1"), object: "stranger/web", cause: "Stranger/web", verdict: acts, text: "does not serve the kind"},

	// Other objects of the operator.
	{
		name: "image of a dependency", objects: app("  waitFor: backend") + "\n---" + named("backend", "  image: registry.invalid/web:1"), object: "demoapp/web",
		cause: "Pod/backend-", verdict: acts, text: "ImagePullBackOff",
	},
	{
		name: "host of an older DemoApp", objects: named("older", "  ingress: {host: a.$NAMESPACE.example.com, className: none}"), first: "demoapp/older",
		change: app("  ingress: {host: a.$NAMESPACE.example.com, className: none}"), object: "demoapp/web", cause: "DemoApp/web", verdict: acts, text: "belongs to DemoApp",
	},
	{
		name: "application of an older AppConfig", objects: appconfig("older"), first: "appconfig/older", change: appconfig("conf"), object: "appconfig/conf",
		cause: "AppConfig/conf", verdict: acts, text: "belongs to AppConfig",
	},
	{
		name: "volume of the database of a platform", objects: platform, object: "ecommerceplatform/shop", cause: "PersistentVolumeClaim/data-shop-db-0",
		verdict: acts, text: "no storage class",
	},
	{name: "missing dependency", objects: app("  waitFor: backend"), object: "demoapp/web", cause: "DemoApp/backend", verdict: acts, text: "does not exist"},
	{
		name: "dependency that is suspended", objects: app("  waitFor: backend") + "\n---" + named("backend", "  suspend: true"), object: "demoapp/web",
		cause: "DemoApp/backend", verdict: acts, text: `\"suspend\":false`,
	},
	{
		name:    "dependency of a dependency without its Secret",
		objects: app("  waitFor: backend") + "\n---" + named("backend", "  waitFor: store") + "\n---\napiVersion: demo.example.com/v1alpha1\nkind: DemoApp\nmetadata: {name: store}\nspec: {apiKeyFrom: {name: keys, key: api}}",
		object:  "demoapp/web", cause: "Secret/keys", verdict: acts, text: "does not exist",
	},
	{
		name: "node port of an older DemoApp", objects: named("older", "  service: {type: NodePort, nodePort: 31777}"),
		first: "demoapp/older", object: "demoapp/web", change: named("web", "  service: {type: NodePort, nodePort: 31777}"), cause: "DemoApp/web", verdict: acts, text: "31777",
	},

	// Sources of values.
	{
		name:    "Secret of the API key",
		objects: "apiVersion: demo.example.com/v1alpha1\nkind: DemoApp\nmetadata: {name: web}\nspec: {apiKeyFrom: {name: keys, key: api}}",
		object:  "demoapp/web", cause: "Secret/keys", verdict: acts, text: "does not exist",
	},
	{
		name: "key in the Secret of the API key",
		objects: "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {other: value-of-it}\n---\n" +
			"apiVersion: demo.example.com/v1alpha1\nkind: DemoApp\nmetadata: {name: web}\nspec: {apiKeyFrom: {name: keys, key: api}}",
		object: "demoapp/web", cause: "Secret/keys", verdict: acts, text: `no key \"api\"`,
	},
	{
		name: "ConfigMap with values", objects: app("  valuesFrom: [{kind: ConfigMap, name: more}]"), object: "demoapp/web", cause: "ConfigMap/more",
		verdict: acts, text: "does not exist",
	},
	{
		name:    "values that are no YAML",
		objects: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: more}\ndata: {values.yaml: '{'}\n---" + app("  valuesFrom: [{kind: ConfigMap, name: more}]"),
		object:  "demoapp/web", cause: "ConfigMap/more", verdict: acts,
	},
	{name: "Secret of a Backup", objects: backup, object: "backup/nightly", cause: "Secret/login", verdict: acts, text: "does not exist"},

	// The namespace.
	{
		name:    "suspended by the namespace",
		objects: "apiVersion: v1\nkind: Namespace\nmetadata: {name: $NAMESPACE, annotations: {demo.example.com/paused: 'true'}}\n---" + app(""),
		object:  "demoapp/web", cause: "Namespace/$NAMESPACE", verdict: acts, text: "demo.example.com/paused-",
	},
	{
		name:    "quota of pods",
		objects: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {pods: '0'}}\n---" + app(""),
		object:  "demoapp/web", cause: "ResourceQuota/few", verdict: acts, text: "exceeded quota",
	},
	{
		name:    "quota of ConfigMaps",
		objects: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {count/configmaps: '1'}}\n---" + app(""),
		object:  "demoapp/web", cause: "ResourceQuota/few", verdict: acts, text: "exceeded quota",
	},
	{
		name:    "quota that asks for limits",
		objects: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {limits.cpu: '1'}}\n---" + app(""),
		object:  "demoapp/web", cause: "ResourceQuota/few", verdict: acts, text: "must specify",
	},
	{
		name:    "quota of pods of a StatefulSet",
		objects: "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: few}\nspec: {hard: {pods: '0'}}\n---" + postgresql,
		object:  "postgresql/db", cause: "ResourceQuota/few", verdict: acts, text: "exceeded quota",
	},
	{
		name:    "limit range",
		objects: "apiVersion: v1\nkind: LimitRange\nmetadata: {name: small}\nspec: {limits: [{type: Container, max: {memory: 8Mi}}]}\n---" + app(""),
		object:  "demoapp/web", cause: "Deployment/web", verdict: acts, text: "maximum memory usage",
	},

	// Admission.
	{
		name: "webhook that does not answer", object: "demoapp/web", cause: "ValidatingWebhookConfiguration/$NAMESPACE", verdict: acts, text: "failed calling webhook",
		objects: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: $NAMESPACE}\nwebhooks:\n" +
			"- name: $NAMESPACE.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  timeoutSeconds: 1\n" +
			"  clientConfig: {url: 'https://127.0.0.1:1/'}\n  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NAMESPACE}}\n" +
			"  rules: [{apiGroups: [''], apiVersions: [v1], resources: [services], operations: [CREATE]}]\n---" + app(""),
	},
	{
		name: "admission policy", object: "demoapp/web", cause: "ValidatingAdmissionPolicy/$NAMESPACE", verdict: acts, text: "no Services here", awaitRefusal: true,
		objects: "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: $NAMESPACE}\nspec:\n" +
			"  matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], resources: [services], operations: [CREATE]}]}\n" +
			"  validations: [{expression: 'false', message: no Services here}]\n---\n" +
			"apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: $NAMESPACE}\nspec:\n" +
			"  policyName: $NAMESPACE\n  validationActions: [Deny]\n" +
			"  matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: $NAMESPACE}}}",
		change: app(""),
	},
	{
		name: "PriorityClass", objects: app("  values: {priorityClassName: nobody-made-it}"), object: "demoapp/web", cause: "PriorityClass/nobody-made-it",
		verdict: acts, text: "does not exist",
	},
	{
		name: "node port that a Service has", object: "demoapp/web", cause: "DemoApp/web", verdict: acts, text: "already allocated",
		objects: "apiVersion: v1\nkind: Service\nmetadata: {name: taken}\nspec: {type: NodePort, ports: [{port: 80, nodePort: 31778}]}\n---" +
			app("  service: {type: NodePort, nodePort: 31778}"),
	},

	// Objects with the name of a child.
	{
		name:    "ConfigMap of another owner",
		objects: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n---" + app(""),
		object:  "demoapp/web", cause: "ConfigMap/web", verdict: acts,
	},
	{
		name: "Service of another owner", object: "website/site", cause: "Service/site", verdict: acts,
		objects: "apiVersion: v1\nkind: Service\nmetadata: {name: site}\nspec: {ports: [{port: 80}]}\n---\n" +
			"apiVersion: webapp.example.com/v1\nkind: Website\nmetadata: {name: site}\nspec: {replicas: 1, image: 'nginx:1.27-alpine', html: hello}",
	},

	// Images and containers.
	{name: "image that cannot be pulled", objects: stuck, object: "demoapp/web", cause: "Pod/web-", ready: `: container "web": ImagePullBackOff: the image "registry.invalid/web:1" cannot be pulled`, verdict: acts, text: "ImagePullBackOff"},
	{name: "image of a WebApp", objects: webapp, object: "webapp/front", cause: "Pod/front-", ready: `: ImagePullBackOff: the image "registry.invalid/front:1" cannot be pulled`, verdict: acts, text: "ImagePullBackOff"},
	{
		name: "image of one app of a DemoAppCluster", object: "demoappcluster/page", cause: "Pod/page-", verdict: acts, text: "ImagePullBackOff",
		objects: "apiVersion: demo.example.com/v1alpha1\nkind: DemoAppCluster\nmetadata: {name: page}\nspec:\n  template:\n    spec: {apiKey: key-of-an-app, image: 'registry.invalid/web:1'}",
	},
	{
		name: "crash with an exit code", objects: stuck, pods: "web-", podStatus: crashed(42, "Error"), object: "demoapp/web", cause: "Pod/web-", ready: "CrashLoopBackOff: the process ends with exit code 42", verdict: acts,
		text: "exit code 42",
	},
	{
		name: "out of memory", objects: stuck, pods: "web-", podStatus: crashed(137, "OOMKilled"), object: "demoapp/web", cause: "Pod/web-", ready: "OOMKilled: the process ends with exit code 137; raise the memory limit", verdict: acts,
		text: "OOMKilled",
	},
	{
		name: "Secret of a container", objects: stuck, pods: "web-", podStatus: waiting("CreateContainerConfigError", `secret "token" not found`),
		object: "demoapp/web", cause: "Secret/token", verdict: acts, text: "does not exist",
	},
	{
		name: "key of a ConfigMap of a container", objects: stuck, pods: "web-",
		podStatus: waiting("CreateContainerConfigError", "couldn't find key mode in ConfigMap shop/settings"),
		object:    "demoapp/web", cause: "ConfigMap/settings", verdict: acts, text: "does not exist",
	},
	{
		name: "container that would run as root", objects: stuck, pods: "web-",
		podStatus: waiting("CreateContainerConfigError", "container has runAsNonRoot and image will run as root"),
		object:    "demoapp/web", cause: "Pod/web-", ready: "use an image that names such a user by its number", verdict: acts, text: "runAsNonRoot",
	},
	{
		name: "command that does not exist", objects: stuck, pods: "web-", podStatus: waiting("RunContainerError", "exec: serve: executable file not found"),
		object: "demoapp/web", cause: "Pod/web-", verdict: acts, text: "executable file not found",
	},
	{
		name: "name of an image", objects: stuck, pods: "web-", podStatus: waiting("InvalidImageName", "couldn't parse image name"), object: "demoapp/web",
		cause: "Pod/web-", verdict: acts, text: "InvalidImageName",
	},
	{
		name: "init container", objects: stuck, pods: "web-", object: "demoapp/web", cause: "Pod/web-", verdict: acts, text: "the process ends with exit code 3",
		podStatus: "initContainerStatuses: [{name: prepare, image: a, imageID: '', ready: false, restartCount: 0, state: {terminated: {exitCode: 3}}}]",
	},
	{
		name: "readiness probe", objects: stuck, pods: "web-", podStatus: running, event: "Unhealthy: Readiness probe failed: connection refused",
		object: "demoapp/web", cause: "Pod/web-", verdict: acts, text: "Readiness probe failed",
	},
	{
		name: "Secret of a volume", objects: stuck, pods: "web-", podStatus: creating,
		event:  `FailedMount: MountVolume.SetUp failed for volume "tls" : secret "tls" not found`,
		object: "demoapp/web", cause: "Secret/tls", verdict: acts, text: "does not exist",
	},
	{
		name: "sandbox of a pod", objects: stuck, pods: "web-", podStatus: creating, event: "FailedCreatePodSandBox: plugin type cni failed",
		object: "demoapp/web", cause: "Pod/web-", verdict: acts, text: "cni failed",
	},

	// Nodes and volumes.
	{
		name: "node selector", objects: app("  values: {nodeSelector: {disk: none}}"), object: "demoapp/web", cause: "Pod/web-", ready: "Unschedulable: ", verdict: acts, text: "nodes are available",
	},
	{
		name: "more CPU than a node has", objects: app("  values: {resources: {requests: {cpu: '1000'}, limits: {cpu: '1000'}}}"), object: "demoapp/web",
		cause: "Pod/web-", verdict: acts, text: "Insufficient cpu",
	},
	{
		name: "taint", objects: stuck, pods: "web-", podStatus: unscheduled("0/2 nodes are available: 2 node(s) had untolerated taint {gpu: }."),
		object: "demoapp/web", cause: "Pod/web-", verdict: acts, text: "untolerated taint",
	},
	{
		name: "claim that does not exist", objects: stuck, pods: "web-", podStatus: unscheduled(`persistentvolumeclaim "data" not found`),
		object: "demoapp/web", cause: "PersistentVolumeClaim/data", verdict: acts, text: "does not exist",
	},
	{
		name:    "storage class",
		objects: "apiVersion: database.example.com/v1\nkind: PostgreSQL\nmetadata: {name: db}\nspec: {version: '17', storage: 1Gi, replicas: 1, storageClassName: nobody-made-it}",
		object:  "postgresql/db", cause: "StorageClass/nobody-made-it", verdict: acts, text: "does not exist",
	},
	{
		name: "volume of a database of a stack", object: "appstack/stack", cause: "PersistentVolumeClaim/data-stack-db-0", verdict: acts, text: "no storage class",
		objects: "apiVersion: app.example.com/v1\nkind: AppStack\nmetadata: {name: stack}\nspec:\n  database: {version: '17', storage: 1Gi}\n" +
			"  backend: {image: 'nginxinc/nginx-unprivileged:1.27-alpine', replicas: 1, port: 8080}\n" +
			"  frontend: {image: 'nginxinc/nginx-unprivileged:1.27-alpine', replicas: 1, port: 8080}",
	},

	// Deletion.
	{
		name:    "finalizer of another controller",
		objects: "apiVersion: demo.example.com/v1alpha1\nkind: DemoApp\nmetadata: {name: web, finalizers: [example.com/keep]}\nspec: {apiKey: key-of-an-app}",
		object:  "demoapp/web", delete: true, cause: "DemoApp/web", verdict: acts, text: "example.com/keep",
	},

	// The operator.
	{
		name: "operator that is not installed", objects: app("  upgradeWindow: {schedule: 0 0 29 2 *, duration: 1m}"), object: "demoapp/web",
		change: app("  message: changed\n  upgradeWindow: {schedule: 0 0 29 2 *, duration: 1m}"),
		flags:  []string{"--operator-namespace=$NAMESPACE", "--operator-lease=none"}, cause: "Lease/none", verdict: acts, text: "does not exist",
	},
	{
		name: "operator that died", object: "demoapp/web", flags: []string{"--operator-namespace=$NAMESPACE", "--operator-lease=dead"},
		objects: "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: dead}\n" +
			"spec: {holderIdentity: pod_1, leaseDurationSeconds: 15, renewTime: '2020-01-01T00:00:00.000000Z'}\n---" +
			app("  upgradeWindow: {schedule: 0 0 29 2 *, duration: 1m}"),
		change: app("  message: changed\n  upgradeWindow: {schedule: 0 0 29 2 *, duration: 1m}"),
		cause:  "Lease/dead", verdict: acts, text: "has not renewed the lease since 2020-01-01",
	},
}

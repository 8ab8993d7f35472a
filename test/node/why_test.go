// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/example/demoapp-controller/pkg/inspect"
	"github.com/example/demoapp-controller/pkg/plugin"
	"github.com/example/demoapp-controller/test/cluster"
	"github.com/example/demoapp-controller/test/expect"
)

// failure is a state in which real pods keep an object from being ready.
type failure struct {
	// objects are applied to a namespace, whose name replaces $NAMESPACE, and object is the object in question: cache/web
	// without it.
	objects, object string
	// cause is the beginning of KIND/NAME of the object to blame, and says a part of its message.
	cause, says string
	// operator is a part of the message of the operator.
	operator string
	// remedy is applied to end the failure, and remove is deleted.
	remedy, remove string
}

// cache returns a Cache web whose release has these objects.
func cache(objects ...string) string {
	return "{apiVersion: caches.example.com/v1, kind: Cache, metadata: {name: web}, spec: {extra: [" + strings.Join(objects, ", ") + "]}}\n"
}

const (
	// user has the pod settings of the restricted profile, and confined the container settings.
	user     = "terminationGracePeriodSeconds: 1, securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}"
	confined = "image: 'busybox:1.37', securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}"
)

// runs returns a container that runs a command, with further fields.
func runs(command, fields string) string {
	return fmt.Sprintf("{name: main, %s, command: [sh, -c, %q], %s}", confined, command, fields)
}

// sleeps returns a container that runs.
func sleeps(fields string) string { return runs("exec sleep 86400", fields) }

// deployment returns a Deployment whose pod has a container, and further fields.
func deployment(container, fields string) string {
	return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: pods}, spec: {selector: {matchLabels: {app: pods}}, template: {metadata: {labels: {app: pods}}, " +
		fmt.Sprintf("spec: {containers: [%s], %s}}}}", container, strings.TrimSuffix(user+", "+fields, ", "))
}

// job returns a Job that tries once.
func job(name, container, fields string) string {
	return fmt.Sprintf("{apiVersion: batch/v1, kind: Job, metadata: {name: %s}, spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [%s], %s}}}}",
		name, container, strings.TrimSuffix(user+", "+fields, ", "))
}

const mounted = "volumeMounts: [{name: data, mountPath: /data}]"

// healthy has a pod that runs.
var healthy = cache(deployment(sleeps(""), ""))

var failures = map[string]failure{
	"image": {
		objects: "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {name: shop}, spec: {apiKey: verysecret, image: 'nginx:none'}}",
		object:  "demoapp/shop", cause: "Pod/shop-", says: `ImagePullBackOff: the image "nginx:none" cannot be pulled: `, operator: "ImagePullBackOff",
		remedy: "{apiVersion: demo.example.com/v1alpha1, kind: DemoApp, metadata: {name: shop}, spec: {apiKey: verysecret, image: 'nginx:1.27-alpine'}}",
	},
	"crash": {
		objects: cache(deployment(runs("exit 3", ""), "")), cause: "Pod/pods-", says: "CrashLoopBackOff: the process ends with exit code 3", remedy: healthy,
		operator: "exit code 3",
	},
	"out of memory": {
		objects: cache(deployment(runs("tail /dev/zero", "resources: {limits: {memory: 32Mi}}"), "")), cause: "Pod/pods-",
		says: "OOMKilled: the process ends with exit code 137; raise the memory limit", operator: "OOMKilled", remedy: healthy,
	},
	"readiness probe": {
		objects: cache(deployment(sleeps("readinessProbe: {httpGet: {port: 8080, path: /ready}, periodSeconds: 2}"), "")), cause: "Pod/pods-",
		says: "Readiness probe failed: ", operator: "readiness probe (port 8080, path /ready) has not succeeded", remedy: healthy,
	},
	"more CPU than a node has": {
		objects: cache(deployment(sleeps("resources: {requests: {cpu: '1000'}}"), "")), cause: "Pod/pods-", says: "Insufficient cpu", operator: "Unschedulable: ",
		remedy: healthy,
	},
	"mounted Secret": {
		objects: cache(deployment(sleeps(mounted), "volumes: [{name: data, secret: {secretName: token}}]")), cause: "Secret/token", says: "does not exist",
		operator: `FailedMount: MountVolume.SetUp failed for volume "data" : secret "token" not found; create what is missing`,
		remedy:   "{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {key: value}}",
	},
	"mounted ConfigMap": {
		objects: cache(deployment(sleeps(mounted), "volumes: [{name: data, configMap: {name: settings}}]")), cause: "ConfigMap/settings", says: "does not exist",
		operator: `FailedMount: MountVolume.SetUp failed for volume "data" : configmap "settings" not found; create what is missing`,
		remedy:   "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {key: value}}",
	},
	"Secret of a variable": {
		objects: cache(deployment(sleeps("env: [{name: A, valueFrom: {secretKeyRef: {name: token, key: a}}}]"), "")), cause: "Secret/token", says: "does not exist",
		operator: `CreateContainerConfigError: secret "token" not found`, remedy: "{apiVersion: v1, kind: Secret, metadata: {name: token}, stringData: {a: value}}",
	},
	"ConfigMap of variables": {
		objects: cache(deployment(sleeps("envFrom: [{configMapRef: {name: settings}}]"), "")), cause: "ConfigMap/settings", says: "does not exist",
		operator: `CreateContainerConfigError: configmap "settings" not found`, remedy: "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {KEY: value}}",
	},
	"storage class": {
		objects: "{apiVersion: database.example.com/v1, kind: PostgreSQL, metadata: {name: db}, spec: {version: '17', storage: 1Gi, replicas: 1, storageClassName: $NAMESPACE}}",
		object:  "postgresql/db", cause: "StorageClass/$NAMESPACE", says: "does not exist", operator: "Unschedulable: ",
		remedy: "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: $NAMESPACE}, provisioner: localcluster/directory, volumeBindingMode: WaitForFirstConsumer}",
	},
	"quota": {
		objects: "{apiVersion: v1, kind: ResourceQuota, metadata: {name: few}, spec: {hard: {pods: '0'}}}\n---\n" + healthy, cause: "ResourceQuota/few",
		operator: "exceeded quota: few", remove: "resourcequota/few",
	},
	"Pod Security": {
		objects: cache(deployment(sleeps(""), "hostNetwork: true")), cause: "Deployment/pods", says: "violates PodSecurity", operator: "violates PodSecurity", remedy: healthy,
	},
	"image that runs as root": {
		objects: cache(strings.Replace(deployment(sleeps(""), ""), "runAsUser: 1000, ", "", 1)),
		cause:   "Pod/pods-", says: "image will run as root", operator: "use an image that names such a user by its number", remedy: healthy,
	},
	"init container": {
		objects: cache(deployment(sleeps(""), "initContainers: ["+strings.Replace(runs("exit 4", ""), "name: main", "name: prepare", 1)+"]")), cause: "Pod/pods-",
		says: `container "prepare": CrashLoopBackOff: the process ends with exit code 4`, operator: `container "prepare": CrashLoopBackOff`, remedy: healthy,
	},
	"Job that fails": {
		objects: cache(job("first", runs("exit 5", ""), "")), cause: "Pod/first-", says: "the process ends with exit code 5", operator: "Job",
		remedy: cache(job("second", runs("exit 0", ""), "")),
	},
	"sandbox that cannot start": {
		objects: cache(deployment(sleeps("resources: {limits: {memory: 64Ki}}"), "")), cause: "Pod/pods-", says: "FailedCreatePodSandBox: ",
		operator: "FailedCreatePodSandBox: ", remedy: healthy,
	},
	"eviction": {
		objects: cache(job("first", runs("dd if=/dev/zero of=/data/file bs=1M count=8; exec sleep 86400", mounted), "volumes: [{name: data, emptyDir: {sizeLimit: 1Mi}}]")),
		cause:   "Pod/first-", says: `Evicted: Usage of EmptyDir volume "data" exceeds the limit "1Mi"`, operator: "Job",
		remedy: cache(job("second", runs("exit 0", ""), "")),
	},
}

// TestWhy: kubectl demoapp why names the cause of real failures, and the object at fault, and the object is ready after the remedy.
func TestWhy(t *testing.T) {
	serveCaches(t)
	t.Run("failures", func(t *testing.T) {
		for name, failure := range failures {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				failure.play(t, restricted(t, "why"))
			})
		}
	})
	t.Run("node", playNodeAway)
}

// play makes the failure, awaits its cause, and ends it.
func (f failure) play(t *testing.T, namespace string) {
	t.Helper()
	in := func(text string) string { return strings.ReplaceAll(text, "$NAMESPACE", namespace) }
	if f.object == "" {
		f.object = "cache/web"
	}
	apply(t, namespace, in(f.objects))

	awaitAnswer(t, namespace, f.object, in(f.cause), func(a answer) error {
		return cmp.Or(a.verdict(inspect.NeedsPerson), a.blames(in(f.cause), f.says), a.operatorSays(f.operator))
	})
	if strings.HasPrefix(f.says, "Evicted") {
		expectInTree(t, namespace, f.object, `"health": "Failed"`, "Evicted: Usage of EmptyDir volume")
	}

	if f.remedy != "" {
		apply(t, namespace, in(f.remedy))
	}
	if f.remove != "" {
		if _, err := kubectl(t.Context(), "delete", "--namespace="+namespace, f.remove); err != nil {
			t.Fatal(err)
		}
	}
	awaitAnswer(t, namespace, f.object, "none", func(a answer) error { return a.verdict(inspect.Ready) })
}

// playNodeAway stops the kubelet, which answers for all pods.
func playNodeAway(t *testing.T) {
	namespace := restricted(t, "why-node")
	apply(t, namespace, healthy)
	awaitAnswer(t, namespace, "cache/web", "none", func(a answer) error { return a.verdict(inspect.Ready) })
	kubelet, err := processOf(t, "kubelet")
	expect.NoError(t, err)
	if err := kubelet.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	resume := func() {
		if err := kubelet.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(resume)

	awaitAnswer(t, namespace, "cache/web", "Node", func(a answer) error {
		return cmp.Or(a.verdict(inspect.NeedsPerson), a.blames("Node/", "Kubelet stopped posting node status"), a.operatorSays("NodeNotReady: the node "))
	})

	resume()
	awaitAnswer(t, namespace, "cache/web", "none", func(a answer) error { return a.verdict(inspect.Ready) })
}

// processOf returns the process of a program of this control plane and its node, such as kubelet.
func processOf(t *testing.T, program string) (*os.Process, error) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	expect.NoError(t, err)
	for _, file := range files {
		line, err := os.ReadFile(file)
		path, _, _ := strings.Cut(string(line), "\x00")
		number := filepath.Base(filepath.Dir(file))
		if err != nil || filepath.Base(path) != program || !isBelow(t, number) {
			continue
		}
		pid, err := strconv.Atoi(number)
		expect.NoError(t, err)
		return os.FindProcess(pid)
	}
	return nil, fmt.Errorf("no %s runs", program)
}

// isBelow reports whether a process descends from this one.
func isBelow(t *testing.T, pid string) bool {
	t.Helper()
	for pid != "0" && pid != "1" {
		if pid == strconv.Itoa(os.Getpid()) {
			return true
		}
		status, err := os.ReadFile("/proc/" + pid + "/status")
		if err != nil {
			return false
		}
		_, after, _ := strings.Cut(string(status), "\nPPid:")
		pid, _, _ = strings.Cut(strings.TrimSpace(after), "\n")
	}
	return false
}

// answer is what kubectl demoapp why says.
type answer struct {
	code  int
	Cause struct{ Kind, Name, Message string }
	Steps []struct{ Message string }
}

func (a answer) verdict(want inspect.Verdict) error {
	if a.code != int(want) {
		return fmt.Errorf("the exit code is %d, the cause %v", a.code, a.Cause)
	}
	return nil
}

func (a answer) blames(cause, says string) error {
	if got := a.Cause.Kind + "/" + a.Cause.Name; !strings.HasPrefix(got, cause) || !strings.Contains(a.Cause.Message, says) {
		return fmt.Errorf("it blames %s: %s", got, a.Cause.Message)
	}
	return nil
}

func (a answer) operatorSays(text string) error {
	if !strings.Contains(a.Steps[0].Message, text) {
		return fmt.Errorf("the message of the operator lacks %q: %s", text, a.Steps[0].Message)
	}
	return nil
}

// awaitAnswer asks why an object is not ready, until the answer is right.
func awaitAnswer(t *testing.T, namespace, object, cause string, check func(answer) error) {
	t.Helper()
	cluster.Eventually(t.Context(), t, "the cause of "+object+": "+cause, func(context.Context) (bool, error) {
		var got answer
		out, code := demoapp(t, namespace, "why", object, "-o", "json")
		got.code = code
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return false, fmt.Errorf("%w: %s", err, out)
		}
		err := check(got)
		return err == nil, err
	})
}

func expectInTree(t *testing.T, namespace, object string, parts ...string) {
	t.Helper()
	out, _ := demoapp(t, namespace, "tree", object, "-o", "json")
	expect.Contains(t, "tree", out, parts...)
}

// demoapp runs kubectl demoapp.
func demoapp(t *testing.T, namespace string, args ...string) (out string, code int) {
	t.Helper()
	var written bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &written, ErrOut: &written}
	code = plugin.Execute(t.Context(), plugin.Options{}, append(args, "--kubeconfig="+shared.Kubeconfig(), "--namespace="+namespace), streams)
	return written.String(), code
}

// system is the namespace of the operator.
const system = "demoapp-system"

// serveCaches runs an operator for the kind Cache, whose chart makes of any objects a release.
func serveCaches(t *testing.T) {
	t.Helper()
	apply(t, system, cachesServed)
	serveChart(t, "caches", "{group: caches.example.com, version: v1, kind: Cache}", filepath.Join(shared.Root(), "test", "integration", "watches", "testdata", "cache"))
}

// serveChart runs a second operator in the namespace of the operator, whose watches file has one entry, with a chart. args are
// further arguments of the operator.
func serveChart(t *testing.T, name, entry, chart string, args ...string) {
	t.Helper()
	folder := t.TempDir()
	archive, watches := filepath.Join(folder, "chart.tgz"), filepath.Join(folder, "watches.yaml")
	tar := exec.CommandContext(t.Context(), "tar", "-C", filepath.Dir(chart), "-czf", archive, filepath.Base(chart))
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	expect.NoError(t, os.WriteFile(watches, []byte("- "+strings.TrimSuffix(entry, "}")+", chart: /served/chart.tgz}\n"), 0o600))
	run(t, system, "create", "configmap", name, "--from-file="+archive, "--from-file="+watches)

	operator, err := shared.Client.AppsV1().Deployments(system).Get(t.Context(), "demoapp-controller", metav1.GetOptions{})
	expect.NoError(t, err)
	served := operator.DeepCopy()
	served.ObjectMeta = metav1.ObjectMeta{Namespace: system, Name: name}
	served.Spec.Replicas = new(int32(1))
	labels := map[string]string{"app": name}
	served.Spec.Selector, served.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	pod := &served.Spec.Template.Spec
	source := corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	pod.Volumes = []corev1.Volume{{Name: "served", VolumeSource: source}}
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "served", MountPath: "/served"}}
	pod.Containers[0].Args = append([]string{"--controllers=watches", "--watches-file=/served/watches.yaml", "--leader-elect=false"}, args...)
	_, err = shared.Client.AppsV1().Deployments(system).Create(t.Context(), served, metav1.CreateOptions{})
	expect.NoError(t, err)
	t.Cleanup(func() {
		_, err := kubectl(context.WithoutCancel(t.Context()), "delete", "--namespace="+system, "deployment/"+name, "configmap/"+name)
		expect.NoError(t, err)
	})
	awaitRollout(t, system, name, 1)
}

// cachesServed are the CRD of the kind, and the permissions of the operator for it and the objects of its releases.
const cachesServed = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: caches.caches.example.com}
spec:
  group: caches.example.com
  names: {kind: Cache, listKind: CacheList, plural: caches, singular: cache, categories: [demoapp-controller]}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: caches}
rules:
- {apiGroups: [caches.example.com], resources: ["*"], verbs: [get, list, watch, patch]}
- {apiGroups: [batch], resources: [jobs], verbs: [get, list, watch, create, patch, delete]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: caches}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: caches}
subjects: [{kind: ServiceAccount, name: demoapp-controller, namespace: demoapp-system}]
`

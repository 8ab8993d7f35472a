// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/example/demoapp-controller/pkg/health"
	"github.com/example/demoapp-controller/pkg/message"
)

// Limits of a bundle in bytes.
const (
	// MaxBundleFile is the limit of a file. A longer file ends with a note.
	MaxBundleFile = 8 << 20
	// MaxBundle is the limit of all files together.
	MaxBundle = 64 << 20
)

// Bundle has the data that a supporter of the operator wants to read, without secrets.
type Bundle struct {
	// Files are the contents by name.
	Files map[string][]byte
	// LeftOut names the missing parts of the bundle: a missing permission, a limit, or content that is always removed.
	LeftOut []string

	size int
}

// Bundle reads the objects of all kinds of the operator in a namespace, all if it is empty, their
// events, and the operator's Lease, Deployment, pods and logs. Objects that the user may not read
// are left out. It reads no Secret.
func (c *Cluster) Bundle(ctx context.Context, namespace string) (*Bundle, error) {
	kinds, err := c.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	b := &Bundle{Files: map[string][]byte{}, LeftOut: []string{
		"all texts in spec of objects, values of annotations, and managed fields, because they may have secrets",
		"values of environment variables of the operator",
		"Secrets, release records and manifests",
	}}
	if version, err := c.Discovery.ServerVersion(); err == nil {
		b.add("kubernetes-version.txt", []byte(version.String()+"\n"))
	} else {
		b.leaveOut("version of Kubernetes", err)
	}
	c.bundleObjects(ctx, b, kinds, namespace)
	c.bundleOperator(ctx, b)
	return b, nil
}

func (c *Cluster) bundleObjects(ctx context.Context, b *Bundle, kinds []Kind, namespace string) {
	served := map[schema.GroupKind]bool{}
	lists, errs := make([][]*unstructured.Unstructured, len(kinds)), make([]error, len(kinds))
	var group errgroup.Group
	group.SetLimit(maxReads)
	for i, kind := range kinds {
		served[kind.GroupKind()] = true
		group.Go(func() error {
			lists[i], errs[i] = c.List(ctx, kind.GroupVersionKind, namespace, "")
			return nil
		})
	}
	_ = group.Wait() // Each kind has an error of its own.
	for i, kind := range kinds {
		if errs[i] != nil {
			b.leaveOut("objects of the kind "+kind.Kind, errs[i])
			continue
		}
		for _, object := range lists[i] {
			maskObject(object)
		}
		b.addObjects("objects/"+kind.Resource+"."+kind.Group+".yaml", lists[i])
	}
	list, err := c.Kubernetes.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{Limit: 10 * pageSize})
	if err != nil {
		b.leaveOut("events", err)
		return
	}
	if list.Continue != "" {
		b.LeftOut = append(b.LeftOut, fmt.Sprintf("events after the first %d", 10*pageSize))
	}
	var events bytes.Buffer
	for _, event := range list.Items {
		if served[schema.FromAPIVersionAndKind(event.InvolvedObject.APIVersion, event.InvolvedObject.Kind).GroupKind()] {
			line := fmt.Sprintf("%s\t%s\t%s %s/%s\t%s\t%q", health.LastSeen(event).UTC().Format("2006-01-02T15:04:05Z"), event.Type,
				event.InvolvedObject.Kind, event.InvolvedObject.Namespace, event.InvolvedObject.Name, event.Reason, event.Message)
			events.WriteString(message.Printable(line) + "\n")
		}
	}
	b.add("events.txt", events.Bytes())
}

func (c *Cluster) bundleOperator(ctx context.Context, b *Bundle) {
	if report, err := c.Report(ctx); err != nil {
		b.leaveOut("Lease and version of the operator", err)
	} else {
		b.addYAML("operator/lease.yaml", report)
	}
	namespace := c.Operator.Namespace
	deployment, err := c.Kubernetes.AppsV1().Deployments(namespace).Get(ctx, c.Operator.Name, metav1.GetOptions{})
	if err != nil {
		b.leaveOut("Deployment of the operator", err)
		return
	}
	selector := metav1.FormatLabelSelector(deployment.Spec.Selector)
	deployment.Annotations, deployment.ManagedFields = nil, nil
	deployment.Spec.Template.Annotations = nil
	maskPod(&deployment.Spec.Template.Spec)
	b.addYAML("operator/deployment.yaml", deployment)
	pods, err := c.Kubernetes.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: pageSize})
	if err != nil {
		b.leaveOut("pods and logs of the operator", err)
		return
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		b.addYAML("operator/pods/"+pod.Name+".yaml", pod.Status)
		c.bundleLog(ctx, b, pod)
		scheme, port := metricsPort(pod)
		metrics, err := c.Kubernetes.CoreV1().Pods(namespace).ProxyGet(scheme, pod.Name, port, "metrics", nil).DoRaw(ctx)
		if err != nil {
			b.leaveOut("metrics of the pod "+pod.Name, err)
			continue
		}
		b.add("operator/metrics/"+pod.Name+".txt", metrics)
	}
}

// metricsPort returns the scheme and the port of the operator's metrics: from the container port
// with that name, or the defaults of the operator. The scheme is empty for HTTP.
func metricsPort(pod *corev1.Pod) (scheme, port string) {
	for _, container := range pod.Spec.Containers {
		if slices.Contains(container.Args, "--metrics-secure") {
			scheme = "https"
		}
		for _, p := range container.Ports {
			if p.Name == "metrics" {
				port = strconv.Itoa(int(p.ContainerPort))
			}
		}
	}
	return scheme, cmp.Or(port, "8080")
}

// bundleLog adds the logs of a pod's containers, and the log before its restart of each container
// that was restarted: it says why.
func (c *Cluster) bundleLog(ctx context.Context, b *Bundle, pod *corev1.Pod) {
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		c.addLog(ctx, b, pod, container.Name, false)
	}
	for _, container := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if container.RestartCount > 0 {
			c.addLog(ctx, b, pod, container.Name, true)
		}
	}
}

func (c *Cluster) addLog(ctx context.Context, b *Bundle, pod *corev1.Pod, container string, previous bool) {
	what, suffix := "log", ".log"
	if previous {
		what, suffix = "log before the last restart", ".previous.log"
	}
	limit := int64(MaxBundleFile)
	stream, err := c.Kubernetes.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, LimitBytes: &limit, Previous: previous,
	}).Stream(ctx)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(stream, limit))
		_ = stream.Close()
	}
	if err != nil {
		b.leaveOut(what+" of the pod "+pod.Name, err)
		return
	}
	b.add("operator/logs/"+pod.Name+"-"+container+suffix, text)
}

// maskObject removes fields that may be secret from an object of a user.
func maskObject(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(object.Object, "status", "deployedRelease", "manifest")
	annotations := object.GetAnnotations()
	for name := range annotations {
		annotations[name] = masked
	}
	object.SetAnnotations(annotations)
	for field, value := range object.Object {
		switch field {
		case "apiVersion", "kind", "metadata", "status":
		default:
			object.Object[field] = maskTexts(value)
		}
	}
}

// maskTexts replaces all texts of a value, and numbers with the name of a secret. Keys, other
// numbers and booleans stay.
func maskTexts(value any) any {
	switch value := value.(type) {
	case string:
		return masked
	case map[string]any:
		for key, inner := range value {
			if value[key] = maskTexts(inner); mayBeSecret(key, inner) {
				value[key] = masked
			}
		}
	case []any:
		for i, inner := range value {
			value[i] = maskTexts(inner)
		}
	}
	return value
}

// maskPod removes the values of environment variables, and secrets in arguments.
func maskPod(pod *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			maskArguments(containers[i].Command)
			maskArguments(containers[i].Args)
			for j := range containers[i].Env {
				if variable := &containers[i].Env[j]; variable.Value != "" {
					variable.Value = masked
				}
			}
		}
	}
}

// credentials are the user and the password in a URL.
var credentials = regexp.MustCompile(`://[^/@\s]+@`)

// maskArguments removes the values of flags with the name of a secret, and credentials in URLs.
func maskArguments(arguments []string) {
	isSecret := false // Whether the argument is the value of the flag before.
	for i, argument := range arguments {
		flag, _, hasValue := strings.Cut(argument, "=")
		named := strings.HasPrefix(flag, "-") && secretName.MatchString(flag)
		switch {
		case isSecret && !strings.HasPrefix(argument, "-"):
			arguments[i] = masked
		case named && hasValue:
			arguments[i] = flag + "=" + masked
		default:
			arguments[i] = credentials.ReplaceAllString(argument, "://"+masked+"@")
		}
		isSecret = named && !hasValue
	}
}

// leaveOut records an unreadable part. The API server's error names the missing permission.
func (b *Bundle) leaveOut(what string, err error) {
	b.LeftOut = append(b.LeftOut, what+": "+strings.Join(strings.Fields(err.Error()), " "))
}

// add adds a file within the limits.
func (b *Bundle) add(name string, content []byte) {
	if len(content) > MaxBundleFile {
		b.LeftOut = append(b.LeftOut, fmt.Sprintf("%s: all after %d bytes", name, MaxBundleFile))
		content = content[:MaxBundleFile]
	}
	if b.size+len(content) > MaxBundle {
		b.LeftOut = append(b.LeftOut, fmt.Sprintf("%s: the bundle has reached its limit of %d bytes", name, MaxBundle))
		return
	}
	b.size += len(content)
	b.Files[name] = content
}

// addObjects adds objects as a YAML list. The encoder of sigs.k8s.io/yaml would encode each of them
// as JSON and decode that again.
func (b *Bundle) addObjects(name string, objects []*unstructured.Unstructured) {
	list := make([]map[string]any, 0, len(objects))
	for _, object := range objects {
		list = append(list, object.Object)
	}
	text, err := goyaml.Marshal(list)
	b.addText(name, text, err)
}

func (b *Bundle) addYAML(name string, value any) {
	text, err := yaml.Marshal(value)
	b.addText(name, text, err)
}

func (b *Bundle) addText(name string, text []byte, err error) {
	if err != nil {
		b.leaveOut(name, err)
		return
	}
	b.add(name, text)
}

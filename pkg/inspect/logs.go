// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxLogLine is the limit of a line of the operator's log in bytes. The operator truncates each
// text at 4 KiB, so only lines of other programs are longer. Longer lines are skipped.
const maxLogLine = 64 << 10

// LogLine is a line of the operator's JSON log.
type LogLine struct {
	Time time.Time
	// Level is DEBUG, INFO, WARN or ERROR.
	Level, Message string
	// Fields are the other fields.
	Fields map[string]any
	// Raw is the whole line, without a line break.
	Raw string
}

// LogLines takes the lines of a log.
type LogLines struct {
	// Found is called with each line about the object, and Other for each line that is not JSON.
	Found func(LogLine)
	Other func()
	// JSON is the number of lines that were JSON.
	JSON int
}

// ReadLog passes the lines of a log that are about an object to lines.
func ReadLog(log io.Reader, object Reference, lines *LogLines) error {
	reader := bufio.NewReaderSize(log, maxLogLine)
	for {
		text, isPrefix, err := reader.ReadLine()
		for isPrefix && err == nil {
			text = nil
			_, isPrefix, err = reader.ReadLine()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(text) == 0 {
			continue
		}
		lines.take(text, object)
	}
}

func (l *LogLines) take(text []byte, object Reference) {
	line, isJSON := parseLogLine(text)
	if !isJSON {
		l.Other()
		return
	}
	l.JSON++
	if line.isAbout(object) {
		l.Found(line)
	}
}

func parseLogLine(text []byte) (LogLine, bool) {
	line := LogLine{Raw: string(text)}
	if json.Unmarshal(text, &line.Fields) != nil || line.Fields == nil {
		return line, false
	}
	take := func(field string) string {
		value, _ := line.Fields[field].(string)
		delete(line.Fields, field)
		return value
	}
	line.Time, _ = time.Parse(time.RFC3339Nano, take("time"))
	line.Level, line.Message = take("level"), take("msg")
	return line, true
}

// isAbout reports whether a pass over the object wrote the line. A controller is named after its
// kind; one of watches.yaml also after version and group.
func (l LogLine) isAbout(object Reference) bool {
	name, _ := l.Fields["object"].(map[string]any)
	if name["name"] != object.Name || name["namespace"] != object.Namespace && (object.Namespace != "" || name["namespace"] != nil) {
		return false
	}
	controller, _ := l.Fields["controller"].(string)
	kind := strings.ToLower(object.Kind)
	return controller == kind || strings.HasPrefix(controller, kind+".") && strings.HasSuffix(controller, "."+strings.ToLower(object.Group))
}

// ReadOperatorLogs passes the lines about an object in the logs of all replicas of the operator to
// lines, since a time ago; all lines if it is 0. Lines of different pods are not sorted. With
// follow, it ends when ctx ends or all pods have ended.
func (c *Cluster) ReadOperatorLogs(ctx context.Context, object Reference, since time.Duration, follow bool, lines *LogLines) error {
	deployment, err := c.Kubernetes.AppsV1().Deployments(c.Operator.Namespace).Get(ctx, c.Operator.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find the operator's pods: %w", err)
	}
	pods, err := c.Kubernetes.CoreV1().Pods(c.Operator.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: metav1.FormatLabelSelector(deployment.Spec.Selector), Limit: pageSize,
	})
	if err != nil {
		return fmt.Errorf("find the operator's pods: %w", err)
	}
	var mu sync.Mutex
	lockedLines := func() *LogLines {
		return &LogLines{
			Found: func(line LogLine) {
				mu.Lock()
				defer mu.Unlock()
				lines.Found(line)
			},
			Other: func() {
				mu.Lock()
				defer mu.Unlock()
				lines.Other()
			},
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			options := &corev1.PodLogOptions{Container: container.Name, Follow: follow}
			if seconds := int64(since.Seconds()); seconds > 0 {
				options.SinceSeconds = &seconds
			}
			group.Go(func() error {
				stream, err := c.Kubernetes.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
				if err != nil {
					return fmt.Errorf("log of the pod %s: %w", pod.Name, err)
				}
				defer stream.Close()
				ofPod := lockedLines()
				err = ReadLog(stream, object, ofPod)
				mu.Lock()
				defer mu.Unlock()
				lines.JSON += ofPod.JSON
				return err
			})
		}
	}
	return group.Wait()
}

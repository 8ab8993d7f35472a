// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package health

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

func TestEndOf(t *testing.T) {
	const job, probe = "apiVersion: batch/v1\nkind: Job\n", "apiVersion: example.com/v1\nkind: Probe\n"
	const pod, csr = "apiVersion: v1\nkind: Pod\n", "apiVersion: certificates.k8s.io/v1\nkind: CertificateSigningRequest\n"
	const ttl = "spec: {ttlSecondsAfterFinished: 5}\n"
	condition := func(conditionType, status string) string {
		return "status: {conditions: [{type: " + conditionType + `, status: "` + status + "\"}]}\n"
	}
	never := func(status string) string { return "spec: {restartPolicy: Never}\nstatus: " + status + "\n" }
	tests := map[string]struct {
		object string
		want   End
	}{
		"a Job that completed":                 {job + ttl + condition("Complete", "True"), Succeeded},
		"a Job that failed":                    {job + ttl + condition("Failed", "True"), Failed},
		"a Job that runs":                      {job + ttl + "status: {active: 1}\n", ""},
		"a Job that is suspended":              {job + ttl + condition("Suspended", "True"), ""},
		"a Job whose pods still end":           {job + ttl + condition("SuccessCriteriaMet", "True"), ""},
		"a Job that stays":                     {job + condition("Complete", "True"), ""},
		"a Job that goes at once":              {job + "spec: {ttlSecondsAfterFinished: 0}\n" + condition("Complete", "True"), Succeeded},
		"another kind that expires":            {probe + ttl + condition("Succeeded", "True"), Succeeded},
		"another kind that expires, failed":    {probe + ttl + condition("Failed", "True"), Failed},
		"another kind that expires, running":   {probe + ttl + condition("Succeeded", "Unknown"), ""},
		"another kind":                         {probe + condition("Succeeded", "True"), ""},
		"a Pod that succeeded":                 {pod + never("{phase: Succeeded}"), Succeeded},
		"a Pod that failed":                    {pod + never("{phase: Failed}"), Failed},
		"a Pod that runs":                      {pod + never("{phase: Running}"), ""},
		"a Pod that was evicted":               {pod + never("{phase: Failed, reason: Evicted}"), ""},
		"a Pod whose node is gone":             {pod + never(`{phase: Failed, conditions: [{type: DisruptionTarget, status: "True"}]}`), ""},
		"a Pod that restarts":                  {pod + "spec: {restartPolicy: Always}\nstatus: {phase: Failed}\n", ""},
		"a Pod that is deleted before its end": {pod + "metadata: {deletionTimestamp: 2026-01-02T03:04:05Z}\n" + never("{phase: Succeeded}"), ""},
		"an issued certificate":                {csr + "status: {certificate: YQ==, conditions: [{type: Approved, status: \"True\"}]}\n", Succeeded},
		"a denied certificate":                 {csr + condition("Denied", "True"), Failed},
		"a certificate that is requested":      {csr + condition("Approved", "True"), ""},
		"a ConfigMap":                          {"apiVersion: v1\nkind: ConfigMap\n", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(test.object), &object.Object); err != nil {
				t.Fatal(err)
			}
			if got := EndOf(object); got != test.want {
				t.Errorf("end %q, want %q", got, test.want)
			}
		})
	}
}

func TestEndsAreBoundedByNamespace(t *testing.T) {
	var ends Ends
	object := func(namespace string, i int) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{Namespace: namespace, UID: types.UID(fmt.Sprint(i))}
	}
	ends.Note(object("quiet", 0), Failed)
	ends.Note(object("quiet", 1), "")
	for i := range 10 * maxEnded {
		ends.Note(object("busy", i), Succeeded)
		ends.Note(object("busy", i), Succeeded)
	}

	if got := len(ends.namespaces["busy"]); got != maxEnded {
		t.Errorf("%d objects are remembered, want %d", got, maxEnded)
	}
	for uid, want := range map[types.UID]End{"0": Failed, "1": "", "2": ""} {
		if got := ends.Of("quiet", uid); got != want {
			t.Errorf("end of %s is %q, want %q", uid, got, want)
		}
	}
	if got := ends.Of("busy", types.UID(fmt.Sprint(10*maxEnded-1))); got != Succeeded {
		t.Errorf("the last end is %q", got)
	}
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1apply "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/example/demoapp-controller/pkg/apis/demo/v1alpha1"
	demoapply "github.com/example/demoapp-controller/pkg/generated/applyconfiguration/demo/v1alpha1"
	"github.com/example/demoapp-controller/pkg/generated/clientset/versioned/fake"
)

func TestPrintSchema(t *testing.T) {
	var out bytes.Buffer
	if err := printSchema(&out); err != nil {
		t.Fatal(err)
	}
	var swagger struct {
		Definitions map[string]struct {
			Description string
		}
	}
	if err := json.Unmarshal(out.Bytes(), &swagger); err != nil {
		t.Fatal(err)
	}
	// applyconfiguration-gen looks the types up by this name and leaves them without
	// a schema where it finds none.
	name := "com.github.example.demoapp-controller.pkg.apis.demo.v1alpha1.DemoApp"
	if swagger.Definitions[name].Description == "" {
		t.Errorf("no definition of %s", name)
	}
}

// TestFakeClientsetApplies holds the purpose of the schema: without it the fake clientset does not
// know which list entries belong to which manager.
func TestFakeClientsetApplies(t *testing.T) {
	client := fake.NewClientset(&v1alpha1.DemoApp{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}})
	apply := func(manager, conditionType string) *v1alpha1.DemoApp {
		t.Helper()
		condition := metav1apply.Condition().
			WithType(conditionType).WithStatus(metav1.ConditionTrue).WithReason("Test").WithMessage("").
			WithLastTransitionTime(metav1.NewTime(time.Unix(0, 0)))
		app, err := client.DemoV1alpha1().DemoApps("ns").ApplyStatus(t.Context(),
			demoapply.DemoApp("web", "ns").WithStatus(demoapply.DemoAppStatus().WithConditions(condition)),
			metav1.ApplyOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		return app
	}
	apply("one", "Ready")
	apply("two", "Extra")
	app := apply("one", "Stalled")

	var got []string
	for _, condition := range app.Status.Conditions {
		got = append(got, condition.Type)
	}
	if diff := cmp.Diff([]string{"Extra", "Stalled"}, got); diff != "" {
		t.Errorf("condition types (-want +got):\n%s", diff)
	}
}

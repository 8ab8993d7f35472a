// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package webapp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/distribution/reference"
	"github.com/google/cel-go/cel"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/cel/environment"
	"pgregory.net/rapid"

	"github.com/example/demoapp-controller/pkg/registries"
	"github.com/example/demoapp-controller/test/crd"
)

// compiler returns a function that compiles an expression of policies.yaml.
func compiler(t *testing.T) func(expression string) cel.Program {
	t.Helper()
	env, err := environment.MustBaseEnvSet(version.MajorMinor(1, 36)).Extend(environment.VersionedOptions{
		IntroducedVersion: version.MajorMinor(1, 0),
		EnvOptions: []cel.EnvOption{
			cel.Variable("object", cel.DynType), cel.Variable("params", cel.DynType), cel.Variable("variables", cel.DynType),
			cel.Variable("namespaceObject", cel.DynType),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(expression string) cel.Program {
		t.Helper()
		ast, issues := env.NewExpressionsEnv().Compile(expression)
		if issues.Err() != nil {
			t.Fatalf("%s: %v", expression, issues.Err())
		}
		program, err := env.NewExpressionsEnv().Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
}

// approvedBy returns a function that evaluates the rule for images in policies.yaml for the
// registries of the ConfigMap.
func approvedBy(t *testing.T) func(image, registries string) (approved bool, name string) {
	t.Helper()
	compile := compiler(t)
	policy := validatingPolicy(t)
	var names []string
	var programs []cel.Program
	for _, variable := range policy.Spec.Variables {
		if variable.Name != "production" {
			names, programs = append(names, variable.Name), append(programs, compile(variable.Expression))
		}
	}
	rule := compile(policy.Spec.Validations[0].Expression)
	return func(image, registries string) (bool, string) {
		variables := map[string]any{}
		input := map[string]any{
			"object":    map[string]any{"spec": map[string]any{"image": image}},
			"params":    map[string]any{"data": map[string]any{"registries": registries}},
			"variables": variables,
		}
		for i, name := range names {
			value, _, err := programs[i].Eval(input)
			if err != nil {
				t.Fatalf("variable %s of image %q and registries %q: %v", name, image, registries, err)
			}
			variables[name] = value
		}
		value, _, err := rule.Eval(input)
		if err != nil {
			t.Fatal(err)
		}
		name, _, err := compile("variables.imageName").Eval(input)
		if err != nil {
			t.Fatal(err)
		}
		return value.Value() == true, name.Value().(string) //nolint:forcetypeassert // It fails the test.
	}
}

// validatingPolicy reads the policy of policies.yaml.
func validatingPolicy(t *testing.T) *admissionregistrationv1.ValidatingAdmissionPolicy {
	t.Helper()
	content, err := os.ReadFile("../../../artifacts/kinds/webapp/admission/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		err := decoder.Decode(&policy)
		if errors.Is(err, io.EOF) {
			t.Fatal("there is no ValidatingAdmissionPolicy")
		}
		if err != nil {
			t.Fatal(err)
		}
		if policy.Kind == "ValidatingAdmissionPolicy" {
			return &policy
		}
	}
}

// TestReplicasOfProductionAreLimited evaluates the rule for replicas, which the CRD limits to the
// same number.
func TestReplicasOfProductionAreLimited(t *testing.T) {
	compile := compiler(t)
	validations := validatingPolicy(t).Spec.Validations
	i := slices.IndexFunc(validations, func(v admissionregistrationv1.Validation) bool {
		return strings.Contains(v.Expression, "object.spec.replicas")
	})
	if i < 0 {
		t.Fatal("there is no rule for replicas")
	}
	rule, message := compile(validations[i].Expression), compile(validations[i].MessageExpression)
	for _, test := range []struct {
		production bool
		replicas   int64
		allowed    bool
	}{{false, 11, true}, {true, 1, true}, {true, 10, true}, {true, 11, false}, {true, 100, false}} {
		input := map[string]any{
			"object":    map[string]any{"spec": map[string]any{"replicas": test.replicas}},
			"variables": map[string]any{"production": test.production},
		}

		allowed, _, err1 := rule.Eval(input)
		text, _, err2 := message.Eval(input)

		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if allowed.Value() != test.allowed {
			t.Errorf("%+v: the policy allows it: %v", test, allowed.Value())
		}
		if want := fmt.Sprintf("spec.replicas: must be at most 10 in a production namespace, got %d", test.replicas); text.Value() != want {
			t.Errorf("the message is %q, want %q", text.Value(), want)
		}
	}
}

var imageID = regexp.MustCompile(`^[a-f0-9]{64}$`)

// TestPolicyAndWebhookAgreeOnImages compares the image rules of the policy and the webhook for
// random images. The CRD refuses images that the webhook cannot parse.
func TestPolicyAndWebhookAgreeOnImages(t *testing.T) {
	evaluate := approvedBy(t)
	definition := crd.Load(t, "artifacts/kinds/webapp/crd.yaml")
	isAdmitted := func(image string) bool {
		return len(definition.Admit(t, definition.Object(t, "web", fmt.Sprintf("{replicas: 1, image: %q}", image)))) == 0
	}
	hosts := []string{
		"", "", "docker.io/", "index.docker.io/", "Index.Docker.io/", "Docker.io/", "localhost/", "LOCALHOST/", "localhost:5000/",
		"quay.io/", "QUAY.io/", "registry.example.com:5000/", "[::1]:5000/", "[2001:DB8::1]/", "[abc]/", "plain/", "Capital/",
		"quay.io:443/", "QUAY.io:0443/", "quay.io:1443/", "docker.io:443/", "registry-1.docker.io/", "Registry-1.docker.io:443/",
		"registry.hub.docker.com/", "[2001:DB8::1]:443/", "[::443]/",
	}
	paths := []string{
		"nginx", "library/nginx", "team/web", "team/shop/web", "quay.io", "docker.io/library/nginx", "a-b__c.d", "libraryx/nginx",
		strings.Repeat("ab", 32), strings.Repeat("a", 256),
	}
	suffixes := []string{
		"", ":v1", ":5000", ":V1.2_x-y", "@sha256:" + strings.Repeat("ab", 32), ":v1@sha256:" + strings.Repeat("ab", 32),
		"@sha256:" + strings.Repeat("AB", 32), "@sha256:" + strings.Repeat("ab", 16), "@foo:" + strings.Repeat("ab", 16),
	}
	entries := []string{
		"docker.io", "docker.io/library", "index.docker.io", "index.docker.io/team", "Docker.io", "localhost", "localhost:5000/team", "quay.io",
		"Quay.IO/team", "registry.example.com:5000", "registry.example.com:5000/team/shop", "docker.io/library/nginx", "docker.io/quay.io",
		"quay.io:443", "Quay.io:00443/team", "registry-1.docker.io/library", "Registry.Hub.Docker.com:443", "[2001:db8::1]",
	}
	rapid.Check(t, func(r *rapid.T) {
		image := rapid.SampledFrom(hosts).Draw(r, "host") + rapid.SampledFrom(paths).Draw(r, "path") + rapid.SampledFrom(suffixes).Draw(r, "suffix")
		approved := rapid.SliceOfN(rapid.SampledFrom(entries), 0, 3).Draw(r, "registries")
		list, err := registries.Parse(approved)
		if err != nil {
			r.Fatal(err)
		}
		separator := rapid.SampledFrom([]string{",", ", ", "\n", " \n\n"}).Draw(r, "separator")

		name, webhookErr := list.Check(image)
		policyApproves, policyName := evaluate(image, strings.Join(approved, separator))

		if webhookErr != nil && strings.Contains(webhookErr.Error(), "is not a valid image reference") {
			// The CRD has no rule for long paths, or for names that look like the ID of an image.
			if !errors.Is(webhookErr, reference.ErrNameTooLong) && !imageID.MatchString(image) && isAdmitted(image) {
				r.Errorf("image %q is admitted by the CRD: %v", image, webhookErr)
			}
			return
		}
		if policyApproves != (webhookErr == nil) || webhookErr == nil && policyName != name {
			r.Errorf("image %q, registries %q: the policy approves %q: %t, the webhook %q: %v",
				image, approved, policyName, policyApproves, name, webhookErr)
		}
	})
}

// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package appconfig

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	configv1 "github.com/example/demoapp-controller/pkg/apis/config/v1"
	"github.com/example/demoapp-controller/pkg/controller/child"
	"github.com/example/demoapp-controller/pkg/controller/kinds/parts/sandbox"
)

// configMapSuffix follows the name of the application in the name of the ConfigMap.
const configMapSuffix = "-config"

func configMapOf(a *configv1.AppConfig) string { return a.Spec.Application + configMapSuffix }

// desired returns the child of an AppConfig.
func desired(a *configv1.AppConfig, data map[string]string) child.Desired {
	return corev1ac.ConfigMap(configMapOf(a), "").WithLabels(map[string]string{configv1.LabelAppConfig: a.Name}).WithData(data)
}

// render renders the templates. Errors name the field, and no value.
func render(a *configv1.AppConfig) (map[string]string, error) {
	values, err := valuesOf(&a.Spec)
	if err != nil {
		return nil, err
	}
	templates := make(map[string]string, len(a.Spec.Config))
	for key, template := range a.Spec.Config {
		templates[key] = string(template)
	}
	data, err := sandbox.Render(templates, sandbox.Data{
		Fields: map[string]string{"Environment": a.Spec.Environment, "Application": a.Spec.Application, "Namespace": a.Namespace},
		Values: values,
	})
	if err != nil {
		return nil, fmt.Errorf("spec.config.%w", err)
	}
	return data, nil
}

// valuesOf returns the values with the overrides of the environment.
func valuesOf(spec *configv1.AppConfigSpec) (map[string]any, error) {
	overrides := map[string]*runtime.RawExtension{
		configv1.EnvironmentDev:     spec.Environments.Dev,
		configv1.EnvironmentStaging: spec.Environments.Staging,
		configv1.EnvironmentProd:    spec.Environments.Prod,
	}
	values, err1 := sandbox.ParseValues("spec.values", spec.Values)
	override, err2 := sandbox.ParseValues("spec.environments."+spec.Environment, overrides[spec.Environment])
	return sandbox.MergePatch(sandbox.MergePatch(nil, values), override), cmp.Or(err1, err2)
}

// hashOf returns the hash of the content of a ConfigMap.
func hashOf(data map[string]string) string {
	encoded, _ := json.Marshal(data) // A map of texts is always encoded, in the order of its keys.
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:16])
}

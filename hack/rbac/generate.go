// Copyright The DemoApp Controller Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// The folders that are generated as a whole.
const (
	namespacedDir    = "artifacts/rbac/namespaced"
	impersonatingDir = "artifacts/rbac/impersonating"
	chartDir         = "artifacts/chart/demoapp-controller/files/rbac"
)

const (
	// operatorName is the name of the operator's ServiceAccount and of its roles.
	operatorName = "demoapp-controller"
	// operatorNamespace has the ServiceAccount and the lease.
	operatorNamespace = "demoapp-system"
	// auditNamespace is the default of --audit-namespace.
	auditNamespace = "demoapp-audit"
	// deployer is the ServiceAccount of tenants that releases belong to.
	deployer = "demoapp-deployer"
)

// watchOnly are the verbs that an operator keeps for releases that belong to the ServiceAccounts
// that it impersonates.
var watchOnly = []string{"list", "watch"}

// namespaced returns the rules for one watched namespace.
func namespaced(rules []rule) []rule {
	return filtered(rules, func(r rule) bool { return !r.has(markCluster) && !r.has(markAudit) })
}

// audit returns the rules for the namespace of the audit records.
func audit(rules []rule) []rule {
	return filtered(rules, func(r rule) bool { return r.has(markAudit) })
}

// impersonating returns the rules of an operator whose releases are written by other
// ServiceAccounts.
func impersonating(rules []rule) []rule {
	var kept []rule
	for _, r := range rules {
		switch {
		case r.has(markImpersonating):
			kept = append(kept, r)
		case r.has(markRecords), r.has(markObjects):
			r.comment = []string{"Releases, for drift and health. The operator only watches their records and objects."}
			if r.has(markRecords) {
				r.comment = []string{"Release records are watched, and written by the ServiceAccounts of the releases."}
			}
			r.Verbs = watchOnly
			kept = append(kept, r)
		}
	}
	return merged(kept)
}

// deploying returns the rules of the ServiceAccounts that releases belong to.
func deploying(rules []rule) []rule {
	var kept []rule
	for _, r := range rules {
		if !r.has(markRecords) && !r.has(markObjects) {
			continue
		}
		r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(verb string) bool {
			// Releases of watches files patch no records: "patch" is for Secrets of the embedded
			// chart.
			return slices.Contains(watchOnly, verb) || r.has(markRecords) && verb == "patch"
		})
		r.comment = []string{"The objects of the chart."}
		if r.has(markRecords) {
			r.comment = []string{"The release records."}
		}
		kept = append(kept, r)
	}
	return merged(kept)
}

func filtered(rules []rule, keep func(rule) bool) []rule {
	var kept []rule
	for i, r := range rules {
		if !keep(r) {
			continue
		}
		r.comment = headOf(rules, i) // The rule with the comment may be left out.
		kept = append(kept, r)
	}
	return merged(kept)
}

// headOf returns the comment that a rule belongs to.
func headOf(rules []rule, i int) []string {
	for ; i >= 0; i-- {
		if len(rules[i].comment) > 0 {
			return rules[i].comment
		}
	}
	return nil
}

// merged drops comments that repeat the one before.
func merged(rules []rule) []rule {
	var last []string
	for i, r := range rules {
		if len(r.comment) > 0 && slices.Equal(r.comment, last) {
			rules[i].comment = nil
			continue
		}
		if len(r.comment) > 0 {
			last = r.comment
		}
	}
	return rules
}

// impersonation are the rules of an operator that acts as the ServiceAccounts that releases belong
// to.
func impersonation() []rule {
	return []rule{
		{
			comment: []string{
				"Requests for a release are sent as its ServiceAccount: list the names of serviceAccountName of your watches file.",
				"Without resourceNames, the operator could act as any ServiceAccount.",
			},
			PolicyRule: rbacv1.PolicyRule{
				APIGroups: []string{""}, Resources: []string{"serviceaccounts"}, ResourceNames: []string{deployer}, Verbs: []string{"impersonate"},
			},
		},
		{
			comment: []string{
				"In a namespace that is being deleted, the ServiceAccount may have lost its permissions. The release is left to that",
				"deletion then.",
			},
			PolicyRule: rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		},
	}
}

// generate returns the content of all generated files, except for docsPage, by path.
func generate(s sources) map[string]string {
	files := map[string]string{}
	s.namespacedFiles(files)
	s.impersonatingFiles(files)
	s.chartFiles(files)
	for _, k := range s.kinds {
		files[fmt.Sprintf("%s/%s/user-roles.yaml", kindsDir, k.name)] = k.userRoles()
		files[fmt.Sprintf("%s/%s/Kustomization", kindsDir, k.name)] = k.kustomization()
	}
	return files
}

func (s sources) namespacedFiles(files map[string]string) {
	from := generatedFrom(operatorSource)
	files[namespacedDir+"/operator.yaml"] = from + `# The operator's ServiceAccount and the rules for its lease, in the namespace of the operator.
` + documents(
		namespaceObject(operatorNamespace), s.account,
		rolesOf(s.lease.name, operatorNamespace, s.lease.rules), bindingOf(s.lease.name, operatorNamespace, operatorName, operatorNamespace),
	)
	files[namespacedDir+"/watched.yaml"] = from + `# What the operator may do in a watched namespace. Apply it to each namespace of --namespaces:
#
#   kubectl apply --namespace=team-a --filename=artifacts/rbac/namespaced/watched.yaml
` + documents(rolesOf(operatorName, "", namespaced(s.operator.rules)), bindingOf(operatorName, "", operatorName, operatorNamespace))
	files[namespacedDir+"/audit.yaml"] = from + `# What the operator may do in the namespace of the audit records.
` + documents(
		rolesOf(operatorName+"-audit", auditNamespace, audit(s.operator.rules)),
		bindingOf(operatorName+"-audit", auditNamespace, operatorName, operatorNamespace),
	)
	files[namespacedDir+"/kustomization.yaml"] = from + `# For artifacts/deploy and artifacts/kinds with --namespaces: no ClusterRole for the operator, and a Role for the audit
# records. The flag, and watched.yaml and kinds for each watched namespace, are yours to add. docs/security.md has
# an example.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources:
  - audit.yaml
patches:
` + s.deletions("ClusterRole") + s.deletions("ClusterRoleBinding")
	for _, k := range s.kinds {
		name := k.roles[0].name
		files[fmt.Sprintf("%s/kinds/%s.yaml", namespacedDir, k.name)] = generatedFrom(k.source()) +
			fmt.Sprintf("# What the operator may do for the kind %s in a watched namespace, beside ../watched.yaml. Apply it to each of them.\n", k.crd.Spec.Names.Kind) +
			documents(rolesOf(name, "", namespaced(k.roles[0].rules)), bindingOf(name, "", operatorName, operatorNamespace))
	}
}

// deletions returns a patch that deletes the operator's roles or bindings of this kind, including
// roles and bindings of opt-in kinds.
func (s sources) deletions(object string) string {
	var kinds []string
	for _, k := range s.kinds {
		kinds = append(kinds, k.name)
	}
	return fmt.Sprintf(`  - target:
      group: %[1]s
      kind: %[2]s
      name: %[3]s(-(%[4]s))?
    patch: |-
      apiVersion: %[1]s/v1
      kind: %[2]s
      metadata: {name: all that the target selects}
      $patch: delete
`, rbacv1.GroupName, object, operatorName, strings.Join(kinds, "|"))
}

func (s sources) impersonatingFiles(files map[string]string) {
	name := operatorName
	files[impersonatingDir+"/operator.yaml"] = generatedFrom(operatorSource) + `# An operator whose only kinds are those of --watches-file (--controllers=watches), each with serviceAccountName. It
# writes its custom resources and events. Releases are written by the ServiceAccounts that it impersonates. Each kind has
# a file beside this one.
` + documents(
		namespaceObject(operatorNamespace), s.account,
		clusterRoleOf(name, nil, append(impersonating(s.operator.rules), impersonation()...)), clusterBindingOf(name, name, operatorNamespace),
		rolesOf(s.lease.name, operatorNamespace, s.lease.rules), bindingOf(s.lease.name, operatorNamespace, name, operatorNamespace),
	)
	var resources, patches []string
	for _, k := range s.kinds {
		if !k.hasReleases {
			continue
		}
		role, from := k.roles[0], generatedFrom(k.source())
		files[fmt.Sprintf("%s/%s.yaml", impersonatingDir, k.name)] = from +
			fmt.Sprintf("# What the operator may do for the kind %s, beside operator.yaml.\n", k.crd.Spec.Names.Kind) +
			documents(clusterRoleOf(role.name, nil, impersonating(role.rules)), clusterBindingOf(role.name, name, operatorNamespace))
		tenant := append(deploying(s.operator.rules), deploying(role.rules)...)
		files[fmt.Sprintf("%s/%s-deployer.yaml", impersonatingDir, k.name)] = generatedFrom(operatorSource, k.source()) +
			fmt.Sprintf(`# The ServiceAccount that releases of the kind %s belong to, for a namespace of a tenant:
#
#   kubectl apply --namespace=team-a --filename=%s/%s-deployer.yaml
`, k.crd.Spec.Names.Kind, impersonatingDir, k.name) +
			documents(tenantAccount(deployer), rolesOf(deployer, "", tenant), bindingOf(deployer, "", deployer, ""))
		resources = append(resources, "../../kinds/"+k.name)
		patches = append(patches, "path: "+k.name+".yaml")
	}
	files[impersonatingDir+"/kustomization.yaml"] = generatedFrom(operatorSource) + `# For artifacts/deploy with an operator that impersonates, and the kinds of this repository that have a watches file. The
# files of this folder replace the rules. The flag --watches-file is yours to add. docs/security.md says more.
apiVersion: kustomize.config.k8s.io/v1alpha1
kind: Component
resources:
  - ` + strings.Join(resources, "\n  - ") + `
patches:
  - path: operator.yaml
  - ` + strings.Join(patches, "\n  - ") + `
  - target: {kind: Deployment, name: ` + operatorName + `}
    patch: |-
      - op: add
        path: /spec/template/spec/containers/0/args/-
        value: --controllers=watches
`
}

func (s sources) chartFiles(files map[string]string) {
	write := func(name, source, about string, rules []rule) {
		files[chartDir+"/"+name] = generatedFrom(source) + "# " + about + "\nrules:\n" + text(rules)
	}
	write("cluster.yaml", operatorSource, "A ClusterRole for all namespaces.", s.operator.rules)
	write("namespaced-watched.yaml", operatorSource, "A Role for each watched namespace.", namespaced(s.operator.rules))
	write("namespaced-audit.yaml", operatorSource, "A Role for the namespace of the audit records.", audit(s.operator.rules))
	write("impersonating.yaml", operatorSource, "A ClusterRole for an operator that impersonates.",
		append(impersonating(s.operator.rules), impersonation()...))
	write("leader-election.yaml", operatorSource, "A Role in the operator's namespace.", s.lease.rules)
	write("metrics-auth.yaml", metricsSource, "A ClusterRole for --metrics-secure.", s.metricsAuth.rules)
	write("metrics-reader.yaml", metricsSource, "A ClusterRole for clients of /metrics.", s.metricsReader.rules)
	files[chartDir+"/users.yaml"] = generatedFrom(userSource) + s.users
	for _, k := range s.kinds {
		rules, about := k.roles[0].rules, "for the kind "+k.crd.Spec.Names.Kind
		write("kinds/"+k.name+".yaml", k.source(), "A ClusterRole for all namespaces, "+about+".", rules)
		write("kinds/"+k.name+"-namespaced.yaml", k.source(), "A Role for each watched namespace, "+about+".", namespaced(rules))
		if k.hasReleases {
			write("kinds/"+k.name+"-impersonating.yaml", k.source(), "A ClusterRole for an operator that impersonates, "+about+".", impersonating(rules))
		}
		for _, r := range k.admission {
			name, about := k.name+"-admission.yaml", "A ClusterRole for the webhook of the kind "
			if r.kind == "Role" {
				name, about = k.name+"-admission-certificates.yaml", "A Role in the operator's namespace, for the webhook of the kind "
			}
			write("kinds/"+name, k.admissionFile(), about+k.crd.Spec.Names.Kind+".", r.rules)
		}
		files[chartDir+"/kinds/"+k.name+"-users.yaml"] = k.userRoles()
	}
}

// kustomization returns the kustomization of the kind. Its file has no extension, so that "kubectl
// apply -f" leaves it out.
func (k kind) kustomization() string {
	return fmt.Sprintf(`# Code generated by hack/rbac. DO NOT EDIT.
# The kind %s, beside artifacts/deploy: its CRD, what the operator may do for it, and the roles of users.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - crd.yaml
  - %s
  - user-roles.yaml
`, k.crd.Spec.Names.Kind, kindSource)
}

// admissionFile is the path of the rules for the kind's webhook, which not every kind has.
func (k kind) admissionFile() string { return kindsDir + "/" + k.name + "/admission/" + kindSource }

// source is the path of the kind's rules.
func (k kind) source() string { return kindsDir + "/" + k.name + "/" + kindSource }

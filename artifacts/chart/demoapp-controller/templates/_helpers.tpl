{{/* The name of the objects: that of the release, which gets the chart's name if it does not have it. */}}
{{- define "demoapp-controller.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels by which Services and policies select the pods. */}}
{{- define "demoapp-controller.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* The labels of all objects. */}}
{{- define "demoapp-controller.labels" -}}
{{ include "demoapp-controller.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "demoapp-controller.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "demoapp-controller.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* The subject of all bindings of the operator. */}}
{{- define "demoapp-controller.subjects" -}}
- kind: ServiceAccount
  name: {{ include "demoapp-controller.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "demoapp-controller.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{/* GOMEMLIMIT of a quantity of memory: nine tenths, in MiB. */}}
{{- define "demoapp-controller.goMemoryLimit" -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 -}}
{{- $quantity := toString . -}}
{{- if kindIs "float64" . -}}
{{- $quantity = printf "%.0f" . -}}
{{- end -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" $quantity -}}
{{- $unit := trimPrefix $number $quantity -}}
{{- if or (not $number) (not (hasKey $units $unit)) -}}
{{- fail (printf "resources.limits.memory: %q is not a quantity such as 512Mi or 1Gi" $quantity) -}}
{{- end -}}
{{- $limit := divf (mulf (float64 $number) (get $units $unit) 0.9) 1048576 | floor | int64 -}}
{{- if lt $limit 115 -}}
{{- fail (printf "resources.limits.memory: %q is too little for the operator; use at least 128Mi" $quantity) -}}
{{- end -}}
{{- printf "%dMiB" $limit -}}
{{- end -}}

{{/* The rules of a file in files/rbac: a list of the root context and the name of the file. */}}
{{- define "demoapp-controller.rules" -}}
{{- $path := printf "files/rbac/%s.yaml" (index . 1) -}}
{{- $content := required (printf "the chart has no file %s" $path) ((index . 0).Files.Get $path) -}}
{{- toYaml (get (fromYaml $content) "rules") -}}
{{- end -}}

{{/* A Role and its binding in a namespace: root, name, namespace, rules. */}}
{{- define "demoapp-controller.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "demoapp-controller.labels" .root | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "demoapp-controller.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  {{- include "demoapp-controller.subjects" .root | nindent 2 }}
{{- end -}}

{{/* A ClusterRole and its binding: root, name, rules. */}}
{{- define "demoapp-controller.clusterRole" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ .name }}
  labels:
    {{- include "demoapp-controller.labels" .root | nindent 4 }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "demoapp-controller.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .name }}
subjects:
  {{- include "demoapp-controller.subjects" .root | nindent 2 }}
{{- end -}}

{{/* How Prometheus verifies the operator: by the CA of metrics.certSecret. A self-signed certificate has no CA. */}}
{{- define "demoapp-controller.scrapeTLS" -}}
{{- if .Values.serviceMonitor.tlsConfig -}}
{{- toYaml .Values.serviceMonitor.tlsConfig -}}
{{- else if .Values.metrics.certSecret -}}
serverName: {{ printf "%s-metrics.%s.svc" (include "demoapp-controller.fullname" .) .Release.Namespace }}
ca:
  secret:
    name: {{ .Values.metrics.certSecret }}
    key: ca.crt
{{- else -}}
insecureSkipVerify: true
{{- end -}}
{{- end -}}

{{/* The milliseconds of a duration such as 1m30s. */}}
{{- define "demoapp-controller.milliseconds" -}}
{{- $units := dict "ms" 1 "s" 1000 "m" 60000 "h" 3600000 -}}
{{- $sum := 0 -}}
{{- range regexFindAll "[0-9]+(ms|s|m|h)" . -1 -}}
{{- $number := regexFind "^[0-9]+" . -}}
{{- $sum = add $sum (mul (int64 $number) (get $units (trimPrefix $number .))) -}}
{{- end -}}
{{- $sum -}}
{{- end -}}

{{/* Refuses times of the lease that the operator refuses at its start. */}}
{{- define "demoapp-controller.validateLease" -}}
{{- $lease := default "15s" .Values.leaderElection.leaseDuration -}}
{{- $deadline := default "10s" .Values.leaderElection.renewDeadline -}}
{{- $period := default "1s" .Values.leaderElection.retryPeriod -}}
{{- $leaseTime := include "demoapp-controller.milliseconds" $lease | int64 -}}
{{- $deadlineTime := include "demoapp-controller.milliseconds" $deadline | int64 -}}
{{- $periodTime := include "demoapp-controller.milliseconds" $period | int64 -}}
{{- if or (lt $leaseTime 1000) (mod $leaseTime 1000) -}}
{{- fail (printf "leaderElection.leaseDuration: %s must be whole seconds, at least 1s" $lease) -}}
{{- end -}}
{{- if le $periodTime 0 -}}
{{- fail (printf "leaderElection.retryPeriod: %s must be longer than 0" $period) -}}
{{- end -}}
{{- if ge $deadlineTime $leaseTime -}}
{{- fail (printf
  "leaderElection.renewDeadline: %s must be shorter than leaseDuration, %s, because otherwise two replicas could lead at a time"
  $deadline $lease) -}}
{{- end -}}
{{- if le (mul $deadlineTime 10) (mul $periodTime 12) -}}
{{- fail (printf "leaderElection.renewDeadline: %s must be longer than 1.2 times retryPeriod, %s" $deadline $period) -}}
{{- end -}}
{{- end -}}

{{/* Refuses names of controllers that the operator does not have. A kind of watches has no controller of its own. */}}
{{- define "demoapp-controller.validateControllers" -}}
{{- $known := list "demoapp" "demoappcluster" "watches" -}}
{{- range $path, $_ := .Files.Glob "files/kinds/*/crd.yaml" -}}
{{- $kind := dir $path | base -}}
{{- if not ($.Files.Get (printf "files/rbac/kinds/%s-impersonating.yaml" $kind)) -}}
{{- $known = append $known $kind -}}
{{- end -}}
{{- end -}}
{{- range .Values.controllers -}}
{{- if not (or (eq . "*") (has (trimPrefix "-" .) $known)) -}}
{{- fail (printf "controllers: %s is the name of no kind; use *, or names with or without a leading dash, of: %s"
  . (join ", " (sortAlpha $known))) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses flags that values set, because the chart also derives permissions, ports and volumes from these values. */}}
{{- define "demoapp-controller.validateFlags" -}}
{{- $values := dict
  "namespaces" "watchNamespaces" "controllers" "controllers" "audit-namespace" "auditNamespace"
  "shutdown-timeout" "shutdownTimeoutSeconds" "logging-format" "logging.format" "v" "logging.verbosity"
  "shards" "shards" "leader-elect" "leaderElection.enabled" "leader-elect-lease-duration" "leaderElection.leaseDuration"
  "leader-elect-renew-deadline" "leaderElection.renewDeadline" "leader-elect-retry-period" "leaderElection.retryPeriod"
  "metrics-bind-address" "metrics.enabled" "metrics-secure" "metrics.secure" "metrics-cert-dir" "metrics.certSecret"
  "webhook-bind-address" "webhook.enabled" "webhook-cert-dir" "webhook.certManager.enabled"
  "approved-registries" "webhook.approvedRegistries" "watches-file" "watches"
  "image-registry" "workloadImages.registry" "images" "workloadImages.replace"
  "default-backup-destination" "defaultBackupDestination" -}}
{{- $fixed := list "kubeconfig" "health-probe-bind-address" "leader-elect-resource-namespace" "leader-elect-resource-name" "webhook-hosts"
  "chart-cache-dir" -}}
{{- range .Values.extraArgs -}}
{{- $flag := regexFind "^-+[^=]*" . | trimAll "-" -}}
{{- if hasKey $values $flag -}}
{{- fail (printf "extraArgs: the chart sets --%s itself; set the value %s instead" $flag (get $values $flag)) -}}
{{- end -}}
{{- if has $flag $fixed -}}
{{- fail (printf "extraArgs: the chart sets --%s itself, because other objects of the release depend on it; remove it" $flag) -}}
{{- end -}}
{{- if regexMatch "^--workers=(0+|-.*)$" . -}}
{{- fail (printf "extraArgs: %s: must be at least 1, or nothing would be reconciled" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Refuses combinations of values that cannot work. values.schema.json refuses single values. */}}
{{- define "demoapp-controller.validate" -}}
{{- include "demoapp-controller.validateLease" . -}}
{{- include "demoapp-controller.validateControllers" . -}}
{{- include "demoapp-controller.validateFlags" . -}}
{{- if and (gt (int .Values.replicaCount) 1) (not .Values.leaderElection.enabled) -}}
{{- fail (print
  "replicaCount: must be 1 without leader election, because each replica would "
  "work; set leaderElection.enabled=true or replicaCount=1") -}}
{{- end -}}
{{- if and (gt (int .Values.shards) 1) (not .Values.leaderElection.enabled) -}}
{{- fail "shards: needs leader election, which divides them; set leaderElection.enabled=true or shards=1" -}}
{{- end -}}
{{- if and .Values.webhook.certManager.enabled (not .Values.webhook.enabled) -}}
{{- fail "webhook.certManager.enabled: is of no use without the webhook; set webhook.enabled=true" -}}
{{- end -}}
{{- if and .Values.image.tag .Values.image.digest -}}
{{- fail "image.tag: is of no use beside image.digest, which a released chart has; set image.digest to that of the tag, or to \"\"" -}}
{{- end -}}
{{- range tuple "appstack" "ecommerceplatform" -}}
{{- if and (has . $.Values.kinds) (not (has "postgresql" $.Values.kinds)) -}}
{{- fail (printf "kinds: %s creates PostgreSQLs; add postgresql to kinds" .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.webhook.approvedRegistries (not .Values.webhook.enabled) -}}
{{- fail "webhook.approvedRegistries: is of no use without the webhook; set webhook.enabled=true" -}}
{{- end -}}
{{- if and .Values.webhook.enabled (not (has "webapp" .Values.kinds)) -}}
{{- fail "webhook.enabled: the webhook reviews WebApps; add webapp to kinds" -}}
{{- end -}}
{{- if and .Values.webhook.enabled .Values.watchNamespaces (not .Values.webhook.certManager.enabled) -}}
{{- fail (print
  "webhook.enabled: with watchNamespaces, the operator may not write the "
  "cluster-scoped caBundle; set webhook.certManager.enabled=true") -}}
{{- end -}}
{{- if and .Values.metrics.secure (not .Values.metrics.enabled) -}}
{{- fail "metrics.secure: is of no use without metrics; set metrics.enabled=true" -}}
{{- end -}}
{{- if and .Values.metrics.certSecret (not .Values.metrics.secure) -}}
{{- fail "metrics.certSecret: is of no use without TLS; set metrics.secure=true" -}}
{{- end -}}
{{- if and (or .Values.serviceMonitor.tlsConfig .Values.serviceMonitor.authorization) (not .Values.metrics.secure) -}}
{{- fail "serviceMonitor.tlsConfig and authorization: are of no use without TLS; set metrics.secure=true" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.metrics.enabled) -}}
{{- fail "serviceMonitor.enabled: there are no metrics to scrape; set metrics.enabled=true" -}}
{{- end -}}
{{- if and .Values.prometheusRule.enabled (not .Values.metrics.enabled) -}}
{{- fail "prometheusRule.enabled: there are no metrics to alert on; set metrics.enabled=true" -}}
{{- end -}}
{{- if and (not .Values.serviceAccount.create) .Values.serviceAccount.annotations -}}
{{- fail "serviceAccount.annotations: the chart does not create the ServiceAccount; set serviceAccount.create=true" -}}
{{- end -}}
{{- if and (not .Values.rbac.create) (or .Values.rbac.extraRules .Values.rbac.impersonate) -}}
{{- fail "rbac.extraRules and rbac.impersonate: the chart creates no permissions; set rbac.create=true" -}}
{{- end -}}
{{- if and .Values.watchNamespaces (has "demoappcluster" .Values.controllers) -}}
{{- fail (print
  "controllers: demoappcluster reads nodes, which no Role can allow; remove "
  "demoappcluster, or watchNamespaces") -}}
{{- end -}}
{{- range $label, $_ := fromYaml (include "demoapp-controller.selectorLabels" .) -}}
{{- if hasKey $.Values.podLabels $label -}}
{{- fail (printf "podLabels: %s selects the pods of the release; remove the label" $label) -}}
{{- end -}}
{{- end -}}
{{- if .Values.rbac.impersonate -}}
{{- include "demoapp-controller.validateImpersonation" . -}}
{{- end -}}
{{- end -}}

{{/* Refuses what an operator that impersonates has no permissions for: its only kinds are those of watches. */}}
{{- define "demoapp-controller.validateImpersonation" -}}
{{- if .Values.watchNamespaces -}}
{{- fail "rbac.impersonate: needs a ClusterRole, which watchNamespaces rules out; set only one of the two" -}}
{{- end -}}
{{- if not .Values.watches -}}
{{- fail "rbac.impersonate: an operator that impersonates runs the kinds of watches only; set watches" -}}
{{- end -}}
{{- range .Values.watches -}}
{{- if not (has (default "" .serviceAccountName) $.Values.rbac.impersonate) -}}
{{- fail (printf "watches: the serviceAccountName of %s must be one of rbac.impersonate" .kind) -}}
{{- end -}}
{{- end -}}
{{- range .Values.kinds -}}
{{- if not ($.Files.Get (printf "files/rbac/kinds/%s-impersonating.yaml" .)) -}}
{{- fail (printf
  "kinds: %s has no releases of watches, and rbac.impersonate permits nothing else; remove %s from kinds" . .) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.controllers (ne (join "," .Values.controllers) "watches") -}}
{{- fail "controllers: with rbac.impersonate, must be empty or [watches]" -}}
{{- end -}}
{{- end -}}

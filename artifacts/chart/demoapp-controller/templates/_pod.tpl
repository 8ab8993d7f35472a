{{/* The flags. A flag with the operator's default is left out. */}}
{{- define "demoapp-controller.args" -}}
{{- $args := list (printf "--logging-format=%s" .Values.logging.format) -}}
{{- if .Values.logging.verbosity -}}
{{- $args = append $args (printf "-v=%d" (int .Values.logging.verbosity)) -}}
{{- end -}}
{{- if not .Values.leaderElection.enabled -}}
{{- $args = append $args "--leader-elect=false" -}}
{{- end -}}
{{- with .Values.leaderElection.leaseDuration -}}
{{- $args = append $args (printf "--leader-elect-lease-duration=%s" .) -}}
{{- end -}}
{{- with .Values.leaderElection.renewDeadline -}}
{{- $args = append $args (printf "--leader-elect-renew-deadline=%s" .) -}}
{{- end -}}
{{- with .Values.leaderElection.retryPeriod -}}
{{- $args = append $args (printf "--leader-elect-retry-period=%s" .) -}}
{{- end -}}
{{- if gt (int .Values.shards) 1 -}}
{{- $args = append $args (printf "--shards=%d" (int .Values.shards)) -}}
{{- end -}}
{{- $name := include "demoapp-controller.fullname" . -}}
{{- if ne $name .Chart.Name -}}
{{- $args = append $args (printf "--leader-elect-resource-name=%s" $name) -}}
{{- end -}}
{{- with .Values.watchNamespaces -}}
{{- $args = append $args (printf "--namespaces=%s" (join "," .)) -}}
{{- end -}}
{{- with ternary .Values.controllers (list "watches") (empty .Values.rbac.impersonate) -}}
{{- $args = append $args (printf "--controllers=%s" (join "," .)) -}}
{{- end -}}
{{- with .Values.workloadImages.registry -}}
{{- $args = append $args (printf "--image-registry=%s" .) -}}
{{- end -}}
{{- with .Values.workloadImages.replace -}}
{{- $pairs := list -}}
{{- range $image, $other := . -}}
{{- $pairs = append $pairs (printf "%s=%s" $image $other) -}}
{{- end -}}
{{- $args = append $args (printf "--images=%s" (join "," $pairs)) -}}
{{- end -}}
{{- range $field, $value := .Values.defaultBackupDestination -}}
{{- $args = append $args (printf "--default-backup-destination=\"%s=%s\"" $field $value) -}}
{{- end -}}
{{- if ne .Values.auditNamespace "demoapp-audit" -}}
{{- $args = append $args (printf "--audit-namespace=%s" .Values.auditNamespace) -}}
{{- end -}}
{{- if ne (int .Values.shutdownTimeoutSeconds) 25 -}}
{{- $args = append $args (printf "--shutdown-timeout=%ds" (int .Values.shutdownTimeoutSeconds)) -}}
{{- end -}}
{{- if not .Values.metrics.enabled -}}
{{- $args = append $args "--metrics-bind-address=0" -}}
{{- else if .Values.metrics.secure -}}
{{- $args = concat $args (list "--metrics-secure" "--metrics-bind-address=:8443") -}}
{{- if .Values.metrics.certSecret -}}
{{- $args = append $args "--metrics-cert-dir=/etc/demoapp-controller/metrics" -}}
{{- end -}}
{{- end -}}
{{- if .Values.webhook.enabled -}}
{{- $args = append $args "--webhook-bind-address=:9443" -}}
{{- if .Values.webhook.certManager.enabled -}}
{{- $args = append $args "--webhook-cert-dir=/etc/demoapp-controller/webhook" -}}
{{- else if not .Values.leaderElection.enabled -}}
{{- $args = append $args (printf "--webhook-hosts=demoapp-webhook.%s.svc" .Release.Namespace) -}}
{{- end -}}
{{- with .Values.webhook.approvedRegistries -}}
{{- $args = append $args (printf "--approved-registries=%s" (join "," .)) -}}
{{- end -}}
{{- end -}}
{{- if .Values.watches -}}
{{- $args = append $args "--watches-file=/etc/demoapp-controller/watches/watches.yaml" -}}
{{- $args = append $args "--chart-cache-dir=/var/cache/demoapp-controller" -}}
{{- end -}}
{{- toYaml (concat $args .Values.extraArgs) -}}
{{- end -}}

{{/* The environment. GOMEMLIMIT in extraEnv replaces that of the memory limit. */}}
{{- define "demoapp-controller.env" -}}
{{- $env := list -}}
{{- $own := false -}}
{{- range .Values.extraEnv -}}
{{- if eq .name "GOMEMLIMIT" -}}{{- $own = true -}}{{- end -}}
{{- end -}}
{{- $memory := dig "limits" "memory" "" .Values.resources -}}
{{- if and $memory (not $own) -}}
{{- $env = append $env (dict "name" "GOMEMLIMIT" "value" (include "demoapp-controller.goMemoryLimit" $memory)) -}}
{{- end -}}
{{- with concat $env .Values.extraEnv -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{- define "demoapp-controller.metricsPort" -}}
{{- ternary 8443 8080 .Values.metrics.secure -}}
{{- end -}}

{{- define "demoapp-controller.volumeMounts" -}}
{{- $mounts := list -}}
{{- if .Values.watches -}}
{{- $mounts = append $mounts (dict "name" "watches" "mountPath" "/etc/demoapp-controller/watches" "readOnly" true) -}}
{{- $mounts = append $mounts (dict "name" "charts" "mountPath" "/var/cache/demoapp-controller") -}}
{{- end -}}
{{- if .Values.webhook.certManager.enabled -}}
{{- $mounts = append $mounts (dict "name" "webhook" "mountPath" "/etc/demoapp-controller/webhook" "readOnly" true) -}}
{{- end -}}
{{- if .Values.metrics.certSecret -}}
{{- $mounts = append $mounts (dict "name" "metrics" "mountPath" "/etc/demoapp-controller/metrics" "readOnly" true) -}}
{{- end -}}
{{- with concat $mounts .Values.extraVolumeMounts -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* The volumes. The ConfigMap is mounted as a directory, because the kubelet does not update a file of subPath. */}}
{{- define "demoapp-controller.volumes" -}}
{{- $volumes := list -}}
{{- if .Values.watches -}}
{{- $config := dict "name" (printf "%s-watches" (include "demoapp-controller.fullname" .)) -}}
{{- $volumes = append $volumes (dict "name" "watches" "configMap" $config) -}}
{{- $volumes = append $volumes (dict "name" "charts" "emptyDir" (dict "sizeLimit" "1Gi")) -}}
{{- end -}}
{{- if .Values.webhook.certManager.enabled -}}
{{- $volumes = append $volumes (dict "name" "webhook" "secret" (dict "secretName" "demoapp-webhook-tls")) -}}
{{- end -}}
{{- with .Values.metrics.certSecret -}}
{{- $volumes = append $volumes (dict "name" "metrics" "secret" (dict "secretName" .)) -}}
{{- end -}}
{{- with concat $volumes .Values.extraVolumes -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

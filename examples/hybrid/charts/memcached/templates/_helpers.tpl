{{/*
The name of the application, for labels.
*/}}
{{- define "memcached.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
The name of the objects: the release's name, followed by the application's name unless the former contains the latter.
Names are cut to 63 characters, because some of them are DNS labels.
*/}}
{{- define "memcached.fullname" -}}
{{- $name := include "memcached.name" . -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{/*
The labels that select the pods. They must not change during the life of a release, because the selector of a
Deployment is immutable.
*/}}
{{- define "memcached.selectorLabels" -}}
app.kubernetes.io/name: {{ include "memcached.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/*
The labels of all objects.
*/}}
{{- define "memcached.labels" -}}
{{ include "memcached.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{- end }}

{{/*
The name of the ServiceAccount of the pods.
*/}}
{{- define "memcached.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "memcached.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

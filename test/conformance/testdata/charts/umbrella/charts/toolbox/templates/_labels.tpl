{{- define "toolbox.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/part-of: {{ .Values.global.region }}
{{- end -}}

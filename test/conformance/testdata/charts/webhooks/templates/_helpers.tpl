{{- define "webhooks.fullname" -}}
{{ .Release.Namespace }}-{{ .Release.Name }}
{{- end }}

{{- define "webhooks.job" -}}
spec:
  backoffLimit: 0
  template:
    metadata:
      labels: {job: certificates}
    spec:
      serviceAccountName: hook-certificates
      restartPolicy: Never
      containers:
        - name: certificates
          image: "certificates:1"
{{- end }}

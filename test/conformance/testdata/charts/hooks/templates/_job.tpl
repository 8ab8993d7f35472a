{{- /* A Job that completes by itself, or fails after a second because its image cannot be pulled. */ -}}
{{- define "hooks.job" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: hook-{{ .name }}
  annotations:
    helm.sh/hook: {{ .events }}
    {{- with .weight }}
    helm.sh/hook-weight: {{ . | quote }}
    {{- end }}
    {{- with .policy }}
    helm.sh/hook-delete-policy: {{ . }}
    {{- end }}
spec:
  backoffLimit: 0
  {{- if .fails }}
  activeDeadlineSeconds: 1
  {{- end }}
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: job
          image: {{ ternary "registry.invalid/job:1" "busybox:1" .fails }}
          args: [{{ .message | quote }}]
{{- end -}}

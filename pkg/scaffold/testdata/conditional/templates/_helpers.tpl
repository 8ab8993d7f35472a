{{- define "conditional.apiVersion" -}}
{{- if .Capabilities.APIVersions.Has "autoscaling/v2" -}}
autoscaling/v2
{{- else -}}
{{- print "autoscaling/v1" -}}
{{- end -}}
{{- end -}}
{{- define "conditional.ingress" }}
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: {{ .Release.Name }}
spec:
  defaultBackend: {service: {name: {{ .Release.Name }}, port: {number: 80}}}
{{- end }}
{{- define "conditional.claim" }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
{{- end }}
{{- define "conditional.unused" }}
apiVersion: v1
kind: ReplicationController
{{- end }}

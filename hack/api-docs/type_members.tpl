{{- define "type_members" -}}
{{- if .Doc -}}
{{ .Doc | replace "|" "\\|" | replace "\n" " " }}
{{- else if eq .Name "metadata" -}}
As of any object.
{{- end -}}
{{- end -}}

{{- define "type" -}}
{{- $type := . -}}
{{- if markdownShouldRenderType $type }}
## {{ $type.Name }}

{{ $type.Doc }}
{{ if $type.References }}
Used by: {{ range $i, $used := $type.SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $used }}{{ end }}
{{ end }}
{{- with index $type.Markers "kubebuilder:validation:XValidation" }}
{{ range . -}}
- {{ .Message | replace "<" "&lt;" }}
{{ end -}}
{{- end }}
{{- if and $type.Validation (not $type.Members) (not $type.EnumValues) }}
Limits: {{ template "limits" $type }}
{{ end }}
{{- if $type.Members }}
| field | type | meaning | default | limits |
|---|---|---|---|---|
{{ range $type.Members -}}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ template "type_members" . }} | {{ with .Default }}`{{ . | toString | replace "{  }" "{}" }}`{{ end }} | {{ template "limits" . }} |
{{ end -}}
{{- end }}
{{- if $type.EnumValues }}
| value | meaning |
|---|---|
{{ range $type.EnumValues -}}
| `{{ .Name }}` | {{ regexReplaceAll "^[A-Za-z]+ (is )?" (.Doc | trim | replace "\n" " ") "" }} |
{{ end -}}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "limits" -}}
{{- $limits := list -}}
{{- range .Validation -}}
{{- if hasPrefix "Required:" . }}{{ $limits = prepend $limits "required" -}}
{{- else if not (regexMatch "^(Optional|Type|XIntOrString):" .) }}{{ $limits = append $limits (. | replace "|" "\\|" | replace "\n" " ") -}}
{{- end -}}
{{- end -}}
{{- range index .Markers "kubebuilder:validation:XValidation" }}{{ $limits = append $limits (.Message | replace "<" "&lt;") }}{{ end -}}
{{- join "<br />" $limits -}}
{{- end -}}

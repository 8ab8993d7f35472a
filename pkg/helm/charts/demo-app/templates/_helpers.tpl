{{/*
Labels that select the pods. A Deployment's selector is immutable, so these must never change for a release.
*/}}
{{- define "demo-app.selectorLabels" -}}
app.kubernetes.io/name: {{ .Release.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/*
Labels of all objects. app.kubernetes.io/version is left out: the image is the user's choice, and the label would go on
naming the chart's.
*/}}
{{- define "demo-app.labels" -}}
{{ include "demo-app.selectorLabels" . }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{/*
The page. The message is text: "html" escapes what a browser would take for markup.
*/}}
{{- define "demo-app.indexHTML" -}}
<html><body><h1>{{ html .Values.message }}</h1></body></html>
{{- end }}

{{/*
The server. Port 8080, because a process that is not root may not bind port 80 everywhere; a charset, because the page
has no place to name its own.
*/}}
{{- define "demo-app.serverConf" -}}
server {
    listen 8080;
    server_name _;
    charset utf-8;
    root /usr/share/nginx/html;
    index index.html;
}
{{ end }}

{{/*
Changes when the page or the server's configuration does. Taken over the contents and not over the rendered ConfigMap: a
new chart version alone changes its labels, and is no reason to restart pods.
*/}}
{{- define "demo-app.configChecksum" -}}
{{ print (include "demo-app.indexHTML" .) (include "demo-app.serverConf" .) | sha256sum }}
{{- end }}

{{/*
Changes when the key does, and gives little away. More people may read Deployments than Secrets, and whoever reads a
full hash can try keys against it offline until one fits. So:
  - namespace and name go in as a salt: no table serves two apps, and equal keys do not look equal;
  - only 32 bits come out: of all keys that are possible, one in four billion still fits, so a long key stays unknown
    (nothing helps a key from a list of common passwords). The price is that one change of key in four billion would
    not roll the pods.
A slow hash would cost its time at every rendering, and a random salt would change the manifest each time.
*/}}
{{- define "demo-app.secretChecksum" -}}
{{ printf "%s/%s/%s" .Release.Namespace .Release.Name .Values.apiKey | sha256sum | trunc 8 }}
{{- end }}

{{- define "pod-checkpointer.selector" -}}
app.kubernetes.io/name: pod-checkpointer
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "pod-checkpointer.labels" -}}
{{ include "pod-checkpointer.selector" . }}
app.kubernetes.io/component: pod-checkpointer
app.kubernetes.io/part-of: kubernetes
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* NAME:TAG or NAME@DIGEST of the image. */}}
{{- define "pod-checkpointer.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

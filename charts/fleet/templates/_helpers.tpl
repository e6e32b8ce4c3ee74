{{/* Labels of all objects. */}}
{{- define "fleet.labels" -}}
app.kubernetes.io/name: fleet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* An object that Helm leaves behind, as a run may be in the middle of its work: without these, nothing could see it end,
     and what its pod connects to would be open. */}}
{{- define "fleet.kept" -}}
helm.sh/resource-policy: keep
{{- end }}

{{/* The subject of all bindings. */}}
{{- define "fleet.subjects" -}}
- kind: ServiceAccount
  name: {{ .Values.coordinator.serviceAccount | quote }}
  namespace: {{ .Release.Namespace }}
{{- end }}

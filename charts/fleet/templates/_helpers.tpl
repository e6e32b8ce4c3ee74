{{/* Labels of all objects. */}}
{{- define "fleet.labels" -}}
app.kubernetes.io/name: fleet
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The subject of all bindings. */}}
{{- define "fleet.subjects" -}}
- kind: ServiceAccount
  name: {{ .Values.coordinator.serviceAccount }}
  namespace: {{ .Release.Namespace }}
{{- end }}

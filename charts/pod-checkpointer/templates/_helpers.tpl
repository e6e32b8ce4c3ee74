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
{{- $missing := "image.repository is not set: no image of the pod-checkpointer is published. Build one (docs/getting-started.md), push it to a registry of your own, and name it in values/pod-checkpointer.yaml." -}}
{{- $_ := required $missing .repository -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The binding of a role to the kubelets, whose credential is all that a static pod can have. */}}
{{- define "pod-checkpointer.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .name }}
  namespace: {{ .namespace }}
  labels:
    {{- include "pod-checkpointer.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .name }}
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: Group
    name: system:nodes
{{- end }}

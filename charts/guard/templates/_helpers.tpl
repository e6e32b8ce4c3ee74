{{- define "guard.selector" -}}
app.kubernetes.io/name: guard
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "guard.labels" -}}
{{ include "guard.selector" . }}
app.kubernetes.io/component: guard
app.kubernetes.io/part-of: kubernetes
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* NAME:TAG or NAME@DIGEST of the image. */}}
{{- define "guard.image" -}}
{{- with .Values.image -}}
{{- $missing := "image.repository is not set: no image of guard is published. Build one (docs/install.md), push it to a registry of your own, and name it in the values." -}}
{{- $_ := required $missing .repository -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The namespace, which is also in the names of cluster-scoped objects: each namespace may have a guard. */}}
{{- define "guard.namespace" -}}
{{- if eq .Release.Namespace "kube-system" -}}
{{- fail "guard doesn't run in kube-system, where its webhooks could block the repair of the control plane: install it with --namespace guard --create-namespace" -}}
{{- end -}}
{{ .Release.Namespace }}
{{- end }}

{{- define "guard.configuration" -}}
guard-no-downscale-{{ include "guard.namespace" . }}
{{- end }}

{{- define "guard.zoneBudgetConfiguration" -}}
guard-zone-budget-{{ include "guard.namespace" . }}
{{- end }}

{{- define "guard.downscaleConfiguration" -}}
guard-downscale-{{ include "guard.namespace" . }}
{{- end }}

{{- define "guard.protectorConfiguration" -}}
guard-protector-{{ include "guard.namespace" . }}
{{- end }}

{{/* The subjects of a binding. */}}
{{- define "guard.subjects" -}}
- kind: ServiceAccount
  name: guard
  namespace: {{ include "guard.namespace" . }}
{{- end }}

{{/* The accounts that read the Lease of upgrades, as JSON; empty if there is none. */}}
{{- define "guard.readersOfRuns" -}}
{{- $accounts := list -}}
{{- if eq .Values.hold "run" -}}
{{- if .Values.rollouts.enabled }}{{ $accounts = append $accounts "guard" }}{{ end -}}
{{- if .Values.ingress.enabled }}{{ $accounts = append $accounts "guard-ingress" }}{{ end -}}
{{- end -}}
{{- with $accounts }}{{ toJson . }}{{ end -}}
{{- end }}

{{/* "true" if an active upgrade holds groups, else empty. */}}
{{- define "guard.holds" -}}
{{- if and .Values.rollouts.enabled (eq .Values.hold "run") }}true{{ end -}}
{{- end }}

{{/* A condition of webhooks: a request for more replicas, or as many, never waits for guard. A StatefulSet's object, which
"true" says that it may be, also loses pods by another first ordinal. */}}
{{- define "guard.losesPods" -}}
- name: loses-pods
  expression: >-
    !has(object.spec.replicas) || !has(oldObject.spec.replicas) ||
    object.spec.replicas < oldObject.spec.replicas
    {{- if . }} ||
    (has(object.spec.ordinals) && has(object.spec.ordinals.start) ? object.spec.ordinals.start : 0) !=
    (has(oldObject.spec.ordinals) && has(oldObject.spec.ordinals.start) ? oldObject.spec.ordinals.start : 0)
    {{- end }}
{{- end }}

{{/* A PodDisruptionBudget for a Deployment with several pods: one may be evicted at a time. */}}
{{- define "guard.disruptionBudget" }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ include "guard.namespace" .root }}
  labels:
    {{- include "guard.labels" .root | nindent 4 }}
spec:
  maxUnavailable: 1
  # A pod that isn't ready does no work: it never blocks a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- .selector | nindent 6 }}
{{- end }}

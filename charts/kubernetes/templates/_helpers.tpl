{{/* Labels of a part; (list CONTEXT NAME). */}}
{{- define "kubernetes.selector" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end }}

{{- define "kubernetes.labels" -}}
{{- $context := index . 0 -}}
{{ include "kubernetes.selector" . }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: kubernetes
app.kubernetes.io/managed-by: {{ $context.Release.Service }}
app.kubernetes.io/version: {{ $context.Values.kubernetesVersion | replace "+" "_" | quote }}
helm.sh/chart: {{ printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* NAME:TAG or NAME@DIGEST of an image; (list CONTEXT IMAGE). */}}
{{- define "kubernetes.image" -}}
{{- $image := index . 1 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default ((index . 0).Values.kubernetesVersion | replace "+" "_") }}
{{- end -}}
{{- end }}

{{/*
Flags as a YAML list, sorted by name; (list EXTRA OWN): EXTRA overrides OWN, even with "" or false, which `merge` would
take for unset.
*/}}
{{- define "kubernetes.args" -}}
{{- $all := deepCopy (index . 1) -}}
{{- range $name, $value := index . 0 }}{{- $_ := set $all $name $value }}{{- end }}
{{- range $name, $value := $all }}
{{- range (kindIs "slice" $value | ternary $value (list $value)) }}
- {{ printf "--%s=%s" $name (toString .) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/* kube-proxy and CoreDNS outlive the release: without them a cluster has no Services and no DNS. */}}
{{- define "kubernetes.kept" -}}
helm.sh/resource-policy: keep
{{- end }}

{{/* The node's public CA certificates, as kubeadm mounts them. */}}
{{- define "kubernetes.trust" -}}
{{- range .Values.caFolders }}
- {name: {{ eq . "/etc/ssl/certs" | ternary "ca-certs" (trimPrefix "/" . | lower | replace "/" "-") }}, path: {{ . }}}
{{- end }}
{{- end }}

{{- define "kubernetes.controllerManagerArgs" -}}
{{- $pki := .Values.pki.hostPath -}}
{{- $own := dict
  "kubeconfig" .Values.controllerManager.kubeconfig
  "authentication-kubeconfig" .Values.controllerManager.kubeconfig
  "authorization-kubeconfig" .Values.controllerManager.kubeconfig
  "bind-address" "0.0.0.0"
  "leader-elect" "true"
  "controllers" "*,bootstrapsigner,tokencleaner"
  "use-service-account-credentials" "true"
  "cluster-name" .Values.network.clusterName
  "client-ca-file" (printf "%s/ca.crt" $pki)
  "root-ca-file" (printf "%s/ca.crt" $pki)
  "cluster-signing-cert-file" (printf "%s/%s" $pki (.Values.pki.signingCertificate | default "ca.crt"))
  "cluster-signing-key-file" (printf "%s/ca.key" $pki)
  "requestheader-client-ca-file" (printf "%s/front-proxy-ca.crt" $pki)
  "service-account-private-key-file" (printf "%s/sa.key" $pki)
-}}
{{- /* As kubeadm: only the allocation of pod subnets needs the range of services, to leave it out. */}}
{{- with .Values.network.podSubnet }}
{{- $_ := set $own "cluster-cidr" . }}
{{- $_ := set $own "allocate-node-cidrs" "true" }}
{{- $_ := set $own "service-cluster-ip-range" $.Values.network.serviceSubnet }}
{{- end }}
{{- with .Values.emulatedVersion }}
{{- $_ := set $own "emulated-version" . }}
{{- end }}
{{- include "kubernetes.args" (list .Values.controllerManager.extraArgs $own) }}
{{- end }}

{{- define "kubernetes.schedulerArgs" -}}
{{- $own := dict
  "kubeconfig" .Values.scheduler.kubeconfig
  "authentication-kubeconfig" .Values.scheduler.kubeconfig
  "authorization-kubeconfig" .Values.scheduler.kubeconfig
  "bind-address" "0.0.0.0"
  "leader-elect" "true"
-}}
{{- with .Values.emulatedVersion }}
{{- $_ := set $own "emulated-version" . }}
{{- end }}
{{- include "kubernetes.args" (list .Values.scheduler.extraArgs $own) }}
{{- end }}

{{/*
A Deployment and its PodDisruptionBudget for controller-manager or scheduler;
(dict "context" . "name" NAME "part" VALUES "port" PORT "args" ARGS "live" PATH "ready" PATH "pki" BOOL).
*/}}
{{- define "kubernetes.leader" -}}
{{- $ := .context -}}
{{- $plane := $.Values.controlPlane -}}
{{- /* The gates and the pod-checkpointer look for Kubernetes' own Lease; two Leases have two leaders in a rollout. */}}
{{- $name := .name -}}
{{- $own := dict "leader-elect-resource-name" .name "leader-elect-resource-namespace" "kube-system" -}}
{{- range $flag, $given := .part.extraArgs }}
{{- $value := last (kindIs "slice" $given | ternary $given (list $given)) }}
{{- if and (eq $flag "leader-elect") (not (has $value (list "1" "t" "T" "true" "True" "TRUE"))) }}
{{- fail (printf "extraArgs of %s: with leader-elect=%s, two pods act at once while one replaces the other. Remove it" $name $value) }}
{{- else if and (hasKey $own $flag) (ne $value (get $own $flag)) }}
{{- fail (printf "extraArgs of %s: %s must be %s, or be left out: gates and the pod-checkpointer use no other Lease, and during a rollout, pods with different Leases act at once" $name $flag (get $own $flag)) }}
{{- end }}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ .name }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "kubernetes.labels" (list $ .name) | nindent 4 }}
  annotations:
    # Each checkpoint records the revision that it came from. It is read here, and not on the pods: a change there would
    # replace them.
    checkpointer.upgrader.io/helm-revision: {{ $.Release.Revision | quote }}
spec:
  replicas: {{ .part.replicas }}
  minReadySeconds: {{ $plane.minReadySeconds }}
  progressDeadlineSeconds: {{ $plane.progressDeadlineSeconds }}
  revisionHistoryLimit: 5
  strategy:
    type: RollingUpdate
    rollingUpdate:
      # The new pod is ready before the old one is terminated: only the old one can create and schedule it.
      maxSurge: 1
      maxUnavailable: 0
  selector:
    matchLabels:
      {{- include "kubernetes.selector" (list $ .name) | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "kubernetes.selector" (list $ .name) | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
        {{- with .part.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or .part.checkpoint.enabled .part.podAnnotations }}
      annotations:
        {{- if .part.checkpoint.enabled }}
        checkpointer.upgrader.io/checkpoint: "true"
        # The standby pod starts only after this Lease has not been renewed for a while: while a leader exists, it isn't
        # needed.
        checkpointer.upgrader.io/lease: {{ .name }}
        {{- end }}
        {{- with .part.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      # Its own address (no hostNetwork): old and new pod listen on the same port, on the same node, at the same time.
      # No service-account token: the kubelet also runs it alone, as a standby pod.
      automountServiceAccountToken: false
      enableServiceLinks: false
      dnsPolicy: Default
      priorityClassName: {{ $plane.priorityClassName }}
      terminationGracePeriodSeconds: {{ $plane.terminationSeconds }}
      {{- with $plane.hostAliases }}
      hostAliases:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      nodeSelector:
        {{- toYaml $plane.nodeSelector | nindent 8 }}
      tolerations:
        {{- toYaml $plane.tolerations | nindent 8 }}
      affinity:
        podAntiAffinity:
          # Preferred: required would leave no place for the second pod on a single controller.
          preferredDuringSchedulingIgnoredDuringExecution:
            - weight: 100
              podAffinityTerm:
                topologyKey: kubernetes.io/hostname
                labelSelector:
                  matchLabels:
                    {{- include "kubernetes.selector" (list $ .name) | nindent 20 }}
      securityContext:
        # Root: only root can read kubeadm's keys and kubeconfigs.
        runAsUser: 0
        runAsGroup: 0
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {{ .name }}
          image: {{ include "kubernetes.image" (list $ .part.image) }}
          imagePullPolicy: {{ .part.image.pullPolicy }}
          command: [{{ .name | quote }}]
          args:
            {{- .args | trim | nindent 12 }}
          {{- with .part.extraEnv }}
          env:
            {{- range $name, $value := . }}
            - name: {{ $name }}
              value: {{ $value | quote }}
            {{- end }}
          {{- end }}
          ports:
            - name: https
              containerPort: {{ .port }}
          startupProbe:
            httpGet: {path: {{ .live }}, port: https, scheme: HTTPS}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 60
          livenessProbe:
            httpGet: {path: {{ .live }}, port: https, scheme: HTTPS}
            periodSeconds: 10
            timeoutSeconds: 15
            failureThreshold: 8
          readinessProbe:
            httpGet: {path: {{ .ready }}, port: https, scheme: HTTPS}
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 3
          terminationMessagePolicy: FallbackToLogsOnError
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
          resources:
            {{- toYaml .part.resources | nindent 12 }}
          volumeMounts:
            - name: kubeconfig
              mountPath: {{ .part.kubeconfig }}
              readOnly: true
            {{- if .pki }}
            - name: pki
              mountPath: {{ $.Values.pki.hostPath }}
              readOnly: true
            {{- range include "kubernetes.trust" $ | fromYamlArray }}
            - name: {{ .name }}
              mountPath: {{ .path }}
              readOnly: true
            {{- end }}
            {{- end }}
            {{- with .part.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
      volumes:
        - name: kubeconfig
          hostPath:
            path: {{ .part.kubeconfig }}
            type: File
        {{- if .pki }}
        - name: pki
          hostPath:
            path: {{ $.Values.pki.hostPath }}
            type: Directory
        {{- range include "kubernetes.trust" $ | fromYamlArray }}
        - name: {{ .name }}
          hostPath:
            path: {{ .path }}
            type: DirectoryOrCreate
        {{- end }}
        {{- end }}
        {{- with .part.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ .name }}
  namespace: {{ $.Release.Namespace }}
  labels:
    {{- include "kubernetes.labels" (list $ .name) | nindent 4 }}
spec:
  {{- if eq (int .part.replicas) 1 }}
  minAvailable: 1
  {{- else }}
  maxUnavailable: 1
  {{- end }}
  # A pod that crashes protects nothing, and must not block a drain.
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels:
      {{- include "kubernetes.selector" (list $ .name) | nindent 6 }}
{{- end }}

{{/* KubeProxyConfiguration: the user's values override the chart's. */}}
{{- define "kubernetes.kubeProxyConfig" -}}
{{- $own := dict
  "apiVersion" "kubeproxy.config.k8s.io/v1alpha1"
  "kind" "KubeProxyConfiguration"
  "clientConnection" (dict "kubeconfig" "/var/lib/kube-proxy/kubeconfig.conf")
  "clusterCIDR" .Values.network.podSubnet
-}}
{{- $config := merge (deepCopy .Values.kubeProxy.config) $own }}
{{- /* `merge` takes "" for unset; kube-proxy takes it for no range. */}}
{{- if hasKey .Values.kubeProxy.config "clusterCIDR" }}{{ $_ := set $config "clusterCIDR" .Values.kubeProxy.config.clusterCIDR }}{{ end }}
{{- toYaml $config }}
{{- end }}

{{- define "kubernetes.corefile" -}}
{{- if .Values.coredns.corefile -}}
{{ .Values.coredns.corefile }}
{{- else -}}
.:53 {
    errors
    health {
       lameduck 5s
    }
    ready
    kubernetes {{ .Values.coredns.clusterDomain }} in-addr.arpa ip6.arpa {
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf {
       max_concurrent 1000
    }
    cache 30 {
       disable success {{ .Values.coredns.clusterDomain }}
       disable denial {{ .Values.coredns.clusterDomain }}
    }
    loop
    reload
    loadbalance
}
{{ end -}}
{{- end }}

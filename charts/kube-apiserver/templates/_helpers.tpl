{{- define "kube-apiserver.selector" -}}
app.kubernetes.io/name: kube-apiserver
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kube-apiserver.labels" -}}
{{ include "kube-apiserver.selector" . }}
app.kubernetes.io/component: kube-apiserver
app.kubernetes.io/part-of: kubernetes
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Values.kubernetesVersion | replace "+" "_" | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* NAME:TAG or NAME@DIGEST of an image; (list IMAGE DEFAULT_TAG). */}}
{{- define "kube-apiserver.image" -}}
{{- $image := index . 0 -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default (index . 1 | replace "+" "_") }}
{{- end -}}
{{- end }}

{{/* The port on the node's own address, and behind the `kubernetes` Service. */}}
{{- define "kube-apiserver.port" -}}
{{- ternary .Values.inClusterPort .Values.port .Values.exposeOnAllInterfaces | int -}}
{{- end }}

{{- define "kube-apiserver.reconciler" -}}
{{- if ne .Values.endpoints.reconciler "auto" -}}
{{ .Values.endpoints.reconciler }}
{{- else if eq (int .Values.replicas) 1 -}}
none
{{- else -}}
lease
{{- end -}}
{{- end }}

{{/*
All flags, sorted by name, one YAML list item each. extraArgs override them, except those of the hand-over: the schema
refuses these.
*/}}
{{- define "kube-apiserver.args" -}}
{{- $pki := .Values.pki.hostPath -}}
{{- $grace := .Values.gracefulShutdown -}}
{{- $args := dict
  "advertise-address" "$(HOST_IP)"
  "secure-port" (include "kube-apiserver.port" .)
  "permit-port-sharing" "true"
  "endpoint-reconciler-type" (include "kube-apiserver.reconciler" .)
  "goaway-chance" (toString $grace.goawayChance)
  "shutdown-send-retry-after" "true"
  "shutdown-watch-termination-grace-period" (printf "%ds" (int $grace.watchSeconds))
  "etcd-servers" (join "," .Values.etcd.servers)
  "etcd-cafile" (printf "%s/etcd/ca.crt" $pki)
  "etcd-certfile" (printf "%s/apiserver-etcd-client.crt" $pki)
  "etcd-keyfile" (printf "%s/apiserver-etcd-client.key" $pki)
  "service-cluster-ip-range" .Values.network.serviceSubnet
  "service-account-issuer" .Values.serviceAccount.issuer
  "service-account-key-file" (printf "%s/sa.pub" $pki)
  "service-account-signing-key-file" (printf "%s/sa.key" $pki)
  "client-ca-file" (printf "%s/ca.crt" $pki)
  "tls-cert-file" (printf "%s/apiserver.crt" $pki)
  "tls-private-key-file" (printf "%s/apiserver.key" $pki)
  "kubelet-client-certificate" (printf "%s/apiserver-kubelet-client.crt" $pki)
  "kubelet-client-key" (printf "%s/apiserver-kubelet-client.key" $pki)
  "proxy-client-cert-file" (printf "%s/front-proxy-client.crt" $pki)
  "proxy-client-key-file" (printf "%s/front-proxy-client.key" $pki)
  "requestheader-client-ca-file" (printf "%s/front-proxy-ca.crt" $pki)
  "requestheader-allowed-names" "front-proxy-client"
  "requestheader-extra-headers-prefix" "X-Remote-Extra-"
  "requestheader-group-headers" "X-Remote-Group"
  "requestheader-username-headers" "X-Remote-User"
  "allow-privileged" "true"
  "authorization-mode" "Node,RBAC"
  "enable-admission-plugins" "NodeRestriction"
  "enable-bootstrap-token-auth" "true"
-}}
{{- with .Values.emulatedVersion }}
{{- $_ := set $args "emulated-version" . }}
{{- end }}
{{- /* A switch: the last value counts, in any spelling of Go's ParseBool. */}}
{{- $anonymous := index .Values.extraArgs "anonymous-auth" }}
{{- if .Values.health.token }}
{{- if hasKey .Values.extraArgs "token-auth-file" }}
{{- fail "extraArgs sets token-auth-file, as health.token does, and kube-apiserver reads only one. Remove the flag, or set health.token to false" }}
{{- end }}
{{- $_ := set $args "token-auth-file" "/run/kube-apiserver/tokens.csv" }}
{{- else if has (last (kindIs "slice" $anonymous | ternary $anonymous (list $anonymous))) (list "0" "f" "F" "false" "False" "FALSE") }}
{{- fail "health.token: with anonymous-auth=false, HAProxy's check needs a token: otherwise it never gets 200, and the listener never opens. Set health.token to true" }}
{{- end }}
{{- /* An etcd without TLS has no certificates, so their files don't exist. */}}
{{- $plain := true }}
{{- range .Values.etcd.servers }}
{{- if not (hasPrefix "http://" .) }}{{ $plain = false }}{{ end }}
{{- end }}
{{- if $plain }}
{{- $args = omit $args "etcd-cafile" "etcd-certfile" "etcd-keyfile" }}
{{- end }}
{{- /* Who signs tokens elsewhere has no key files: kube-apiserver refuses both. */}}
{{- if hasKey .Values.extraArgs "service-account-signing-endpoint" }}
{{- $args = omit $args "service-account-key-file" "service-account-signing-key-file" }}
{{- end }}
{{- if hasKey .Values.extraArgs "authorization-config" }}
{{- $_ := unset $args "authorization-mode" }}
{{- end }}
{{- /* Not `merge`: it takes "" and false for unset. */}}
{{- range $name, $value := .Values.extraArgs }}{{- $_ := set $args $name $value }}{{- end }}
{{- range $name, $value := $args }}
{{- range (kindIs "slice" $value | ternary $value (list $value)) }}
- {{ printf "--%s=%s" $name (toString .) | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/*
The files below pki.hostPath that a flag names, one YAML list item each. No others are mounted: the folder also has the
keys of the cluster's CAs, which kube-apiserver doesn't need.
*/}}
{{- define "kube-apiserver.pki" -}}
{{- $flags := include "kube-apiserver.args" . -}}
{{- $root := .Values }}
{{- range regexFindAll (printf "%s/[^\\s\"',:=]+" (regexQuoteMeta .Values.pki.hostPath)) $flags -1 | uniq | sortAlpha }}
{{- $path := . }}
{{- $mounted := false }}
{{- range $root.extraVolumeMounts }}
{{- if or (eq $path .mountPath) (hasPrefix (printf "%s/" .mountPath) $path) }}{{ $mounted = true }}{{ end }}
{{- end }}
{{- if not $mounted }}
- {name: {{ printf "pki%s" (regexReplaceAll "[^a-z0-9]+" (trimPrefix $root.pki.hostPath $path | lower) "-") }}, path: {{ $path | quote }}}
{{- end }}
{{- end }}
{{- end }}

{{/*
Starts kube-apiserver at the address that the pod's init container chose. Its image has no shell that could read a file
into a flag, and kubelets before v1.35 can't (`fileKeyRef`): a shell with its libraries, copied by address.sh, becomes
kube-apiserver. The schema refuses another bind-address.
*/}}
{{- define "kube-apiserver.command" -}}
- /run/kube-apiserver/files/loader
- --library-path
- /run/kube-apiserver/files
- /run/kube-apiserver/files/sh
- /run/kube-apiserver/files/start.sh
- kube-apiserver
{{- end }}

{{- define "kube-apiserver.host-ip" -}}
- name: HOST_IP
  valueFrom:
    fieldRef:
      fieldPath: status.hostIP
{{- end }}

{{- define "kube-apiserver.address" -}}
- name: ADDRESS_FILE
  value: /run/kube-apiserver/address.env
{{- end }}

{{- define "kube-apiserver.token" -}}
- name: TOKEN_FILE
  value: /run/kube-apiserver/tokens.csv
{{- end }}

{{- define "kube-apiserver.confined" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: ["ALL"]
{{- end }}

{{/* The node's public CA certificates (for webhooks, OIDC and the like outside the cluster), as kubeadm mounts them. */}}
{{- define "kube-apiserver.trust" -}}
{{- range .Values.caFolders }}
- {name: {{ eq . "/etc/ssl/certs" | ternary "ca-certs" (trimPrefix "/" . | lower | replace "/" "-") }}, path: {{ . }}}
{{- end }}
{{- end }}

{{/* The proxy's files; the pods' checksum covers exactly these. */}}
{{- define "kube-apiserver.files" -}}
{{- range tuple "address.sh" "proxy.sh" "check.cfg" "front.cfg" "http2.cfg" "start.sh" }}
{{ . }}: |
  {{- tpl ($.Files.Get (printf "files/%s" .)) $ | trim | nindent 2 }}
{{- end }}
{{- end }}

{{/* Names of objects are fixed: there is one Plimsoll in a cluster. The label is what selectors and the program know. */}}
{{- define "plimsoll.labels" -}}
app.kubernetes.io/name: plimsoll
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* metadata of an object of the cluster, and of one of our namespace: list of the root and the name. */}}
{{- define "plimsoll.clusterMetadata" -}}
name: {{ index . 1 }}
labels:
  {{- include "plimsoll.labels" (index . 0) | nindent 2 }}
{{- end }}
{{- define "plimsoll.metadata" -}}
{{ include "plimsoll.clusterMetadata" . }}
namespace: {{ (index . 0).Release.Namespace }}
{{- end }}

{{/* Binds a ClusterRole, or a Role of our namespace, to the ServiceAccount: list of the root, the kind and the name. */}}
{{- define "plimsoll.binding" -}}
{{- $root := index . 0 }}{{ $kind := index . 1 }}{{ $name := index . 2 -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  {{- $metadata := eq $kind "Role" | ternary "plimsoll.metadata" "plimsoll.clusterMetadata" }}
  {{- include $metadata (list $root $name) | nindent 2 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: plimsoll
    namespace: {{ $root.Release.Namespace }}
{{- end }}

{{/* Leases of our namespace, by which a part finds the replica that leads: list of the root and the name. */}}
{{- define "plimsoll.leases" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  {{- include "plimsoll.metadata" . | nindent 2 }}
rules:
  - apiGroups: [coordination.k8s.io]
    resources: [leases]
    verbs: [create, get, update]
---
{{ include "plimsoll.binding" (list (index . 0) "Role" (index . 1)) }}
{{- end }}

{{- define "plimsoll.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ with .digest }}@{{ . }}{{ else }}:{{ .tag | default (printf "v%s" $.Chart.AppVersion) }}{{ end }}
{{- end }}
{{- end }}

{{/* What all our pods are allowed: nothing. */}}
{{- define "plimsoll.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
{{- define "plimsoll.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{/* Of a webhook. caBundle is left out on purpose: the leader, or cert-manager, writes it, and an upgrade keeps what is not
     in the chart. List of the root and the path. */}}
{{- define "plimsoll.clientConfig" -}}
service:
  name: plimsoll
  namespace: {{ (index . 0).Release.Namespace }}
  path: {{ index . 1 }}
  port: 443
{{- end }}

{{/* The webhook as it is in the cluster, as JSON: what the leader has written into it must be rendered as it is. Helm 3 would
     write over it, and Helm 4 would refuse since it is not the owner. List of the kind, the configuration and the webhook. */}}
{{- define "plimsoll.liveWebhook" -}}
{{- $live := dict }}
{{- range (lookup "admissionregistration.k8s.io/v1" (index . 0) "" (index . 1)).webhooks }}
{{- if eq .name (index $ 2) }}{{ $live = . }}{{ end }}
{{- end }}
{{- toJson $live }}
{{- end }}

{{- define "plimsoll.filesMounted" -}}
{{- if ne .Values.certificates.source "selfManaged" }}true{{ end }}
{{- end }}
{{- define "plimsoll.hpaApi" -}}
{{- if or .Values.hpaShim.enabled .Values.hpaExternal.enabled }}true{{ end }}
{{- end }}

{{/* By which cert-manager finds the configurations whose caBundle it writes. */}}
{{- define "plimsoll.injection" -}}
{{- if eq .Values.certificates.source "certManager" }}
  annotations:
    cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/plimsoll
{{- end }}
{{- end }}

{{/* Which parts are on. The environment beats the configuration file, so that `config` cannot turn on what has no rights. */}}
{{- define "plimsoll.env" -}}
{{- $env := dict }}
{{- if include "plimsoll.filesMounted" . }}
{{- $_ := set $env "TLS__SOURCE" "Files" }}
{{- $_ := set $env "TLS__CERTIFICATE" "/etc/plimsoll/tls/tls.crt" }}
{{- $_ := set $env "TLS__KEY" "/etc/plimsoll/tls/tls.key" }}
{{- end }}
{{- if not .Values.hpa.enabled }}{{ $_ := set $env "HPA__ENABLED" "false" }}{{ end }}
{{- if .Values.hpaShim.enabled }}{{ $_ := set $env "HPA__SHIM__ENABLED" "true" }}{{ end }}
{{- if .Values.hpaExternal.enabled }}{{ $_ := set $env "HPA__EXTERNAL__ENABLED" "true" }}{{ end }}
{{- if and (include "plimsoll.hpaApi" .) .Values.metricsServer.insecureSkipVerify }}
{{- $_ := set $env "HPA__API__UPSTREAM_INSECURE_SKIP_VERIFY" "true" }}
{{- end }}
{{- if .Values.quota.enabled }}{{ $_ := set $env "QUOTA__ENABLED" "true" }}{{ end }}
{{- if .Values.placement.enabled }}
{{- $_ := set $env "PLACEMENT__ENABLED" "true" }}
{{- if eq .Values.placement.source "Prometheus" }}
{{- $_ := set $env "PLACEMENT__LOAD__PROMETHEUS__ADDRESS" .Values.prometheus.address }}
{{- else }}
{{- $_ := set $env "PLACEMENT__LOAD__SOURCE" .Values.placement.source }}
{{- end }}
{{- end }}
{{- if .Values.extender.enabled }}
{{- $_ := set $env "PLACEMENT__ADDRESS" "0.0.0.0:8444" }}
{{- $_ := set $env "PLACEMENT__CLIENT_CA" "/etc/plimsoll/scheduler-ca/ca.crt" }}
{{- end }}
{{- if .Values.loadClass.enabled }}{{ $_ := set $env "PLACEMENT__LOAD_CLASS__ENABLED" "true" }}{{ end }}
{{- if .Values.balance.enabled }}{{ $_ := set $env "PLACEMENT__BALANCE__ENABLED" "true" }}{{ end }}
{{- range $name, $value := $env }}
- name: PLIMSOLL_{{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* With placement every replica knows all pods: some 60 MiB for 100,000 of them, and as much again while they are listed. */}}
{{- define "plimsoll.resources" -}}
{{- $least := dict "limits" (dict "memory" (.Values.placement.enabled | ternary "512Mi" "256Mi")) }}
{{- mergeOverwrite $least (deepCopy .Values.resources) | toYaml }}
{{- end }}

{{/* The pod of a command that is not the server, but for its arguments: list of the root and the ServiceAccount. */}}
{{- define "plimsoll.helperPod" -}}
{{- with index . 0 -}}
restartPolicy: Never
serviceAccountName: {{ index $ 1 }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "plimsoll.podSecurity" . | nindent 2 }}
containers:
  - name: plimsoll
    image: {{ include "plimsoll.image" . | quote }}
    {{- with .Values.image.pullPolicy }}
    imagePullPolicy: {{ . }}
    {{- end }}
    env:
      - name: POD_NAMESPACE
        valueFrom:
          fieldRef:
            fieldPath: metadata.namespace
    resources:
      requests:
        cpu: 10m
        memory: 32Mi
      limits:
        memory: 128Mi
    securityContext:
      {{- include "plimsoll.containerSecurity" . | nindent 6 }}
{{- end }}
{{- end }}

{{- define "autoscaler.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "autoscaler.fullname" -}}
{{- $name := include "autoscaler.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "autoscaler.selectorLabels" -}}
app.kubernetes.io/name: {{ include "autoscaler.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "autoscaler.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{ include "autoscaler.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "autoscaler.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "autoscaler.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "autoscaler.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* Who gets the rights. */}}
{{- define "autoscaler.subjects" -}}
- kind: ServiceAccount
  name: {{ include "autoscaler.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}

{{/* What the daemon may do where its targets are.  Each verb is needed. */}}
{{- define "autoscaler.targetRules" -}}
{{- $apps := dict "apiGroups" (list "apps") "resources" (list "deployments" "statefulsets") }}
{{- range prepend .Values.rbac.scaleTargets $apps }}
- apiGroups: {{ toJson .apiGroups }}
  resources: {{ toJson .resources }}
  verbs: [list, watch]
# A zero is applied by a patch, so that the object names its field manager.
- apiGroups: {{ toJson .apiGroups }}
  resources:
  {{- range .resources }}
  - {{ . }}/scale
  {{- end }}
  verbs: [get, update, patch]
{{- end }}
# How many pods there are, and which of them count.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
{{- if .Values.rbac.podDeletionCost }}
# Which pods a scale-down removes: their annotation controller.kubernetes.io/pod-deletion-cost.
- apiGroups: [""]
  resources: [pods]
  verbs: [patch]
{{- end }}
# What another autoscaler controls is left to it.
- apiGroups: [autoscaling]
  resources: [horizontalpodautoscalers]
  verbs: [list, watch]
# Changes of a workload are reported as Events on it.
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{/* The name of an existing ConfigMap or Secret, or nothing. */}}
{{- define "autoscaler.existing" -}}
{{- .Values.existingConfigMap | default .Values.existingSecret }}
{{- end }}

{{/* The keys of the configuration that belong to other values of the chart. */}}
{{- define "autoscaler.writtenConfig" -}}
{{- $existing := include "autoscaler.existing" . -}}
listen: ":9191"
{{- if .Values.web.enabled }}
web:
  listen: ":{{ .Values.web.port }}"
  tls:
    certFile: /etc/autoscaler-web/tls.crt
    keyFile: /etc/autoscaler-web/tls.key
  {{- if or .Values.web.auth.basicAuthUsers .Values.web.auth.bearerToken }}
  auth:
    {{- if .Values.web.auth.basicAuthUsers }}
    basicAuthUsersFile: /etc/autoscaler-web/users.yaml
    {{- end }}
    {{- if .Values.web.auth.bearerToken }}
    bearerTokenFile: /etc/autoscaler-web/token
    {{- end }}
  {{- end }}
{{- else if not $existing }}
web:
  listen: 127.0.0.1:9192
{{- end }}
{{- if .Values.objects.enabled }}
objects:
  enabled: true
  {{- if not .Values.rbac.clusterWide }}
  namespaces:
    names: {{ toJson .Values.rbac.namespaces }}
  {{- end }}
{{- end }}
{{- if .Values.leaderElection.enabled }}
leaderElection:
  enabled: true
  {{- $name := .Values.leaderElection.leaseName | default (empty $existing | ternary (include "autoscaler.fullname" .) "autoscaler") }}
  {{- if ne $name "autoscaler" }}
  name: {{ quote $name }}
  {{- end }}
{{- end }}
{{- end }}

{{/* The configuration in the ConfigMap: `config`, and what it leaves to the chart. */}}
{{- define "autoscaler.config" -}}
{{- mergeOverwrite (include "autoscaler.writtenConfig" . | fromYaml) .Values.config | toYaml }}
{{- end }}

{{/* Whether `config` still has the target of values.yaml, with its query. */}}
{{- define "autoscaler.isExample" -}}
{{- $targets := toJson .Values.config.targets }}
{{- and (contains "order-worker" $targets) (contains "sum by (queue) (rabbitmq_queue_messages_ready{" $targets) }}
{{- end }}

{{- define "autoscaler.leaseName" -}}
{{- ((include "autoscaler.config" . | fromYaml).leaderElection | default dict).name | default "autoscaler" }}
{{- end }}

{{/* Fails if values contradict each other; the schema sees only one value at a time. */}}
{{- define "autoscaler.validate" -}}
{{- with .Values }}
{{- if and .existingConfigMap .existingSecret }}
{{- fail "existingConfigMap and existingSecret are both set; set only one of them" }}
{{- end }}
{{- $existing := include "autoscaler.existing" $ }}
{{- if and $existing (ne (toJson .config) ($.Files.Get "files/config.yaml" | fromYaml | toJson)) }}
{{- $key := empty .existingConfigMap | ternary "existingSecret" "existingConfigMap" }}
{{- fail (printf "config and %s are both set, so that config would have no effect; move its keys to %s and remove config, or remove %s" $key $existing $key) }}
{{- end }}
{{- if and (gt (int .replicaCount) 1) (not .leaderElection.enabled) }}
{{- fail (printf "replicaCount is %v and leaderElection.enabled is false, so that all pods would write to the same targets; set leaderElection.enabled to true or replicaCount to 1" .replicaCount) }}
{{- end }}
{{- if and .rbac.create (not .rbac.clusterWide) (not .rbac.namespaces) }}
{{- fail "rbac.clusterWide is false and rbac.namespaces is empty; list the namespaces of your targets, such as rbac.namespaces: [shop]" }}
{{- end }}
{{- if and .rbac.clusterWide .rbac.namespaces }}
{{- fail "rbac.namespaces is set and rbac.clusterWide is true, so that the list would have no effect; set rbac.clusterWide to false" }}
{{- end }}
{{- if .web.enabled }}
{{- if not .web.existingSecret }}
{{- fail "web.enabled is true and web.existingSecret is empty; set it to a Secret with the keys tls.crt, tls.key, and users.yaml or token" }}
{{- end }}
{{- $tls := (.config.web | default dict).tls | default dict }}
{{- if not (or $existing .web.auth.basicAuthUsers .web.auth.bearerToken $tls.clientAuthType) }}
{{- fail "web.enabled is true without authentication; set web.auth.basicAuthUsers or web.auth.bearerToken to true, or config.web.tls.clientAuthType" }}
{{- end }}
{{- end }}
{{- if .web.ingress.enabled }}
{{- if not (and .web.enabled .web.ingress.host) }}
{{- fail "web.ingress.enabled needs web.enabled: true and web.ingress.host" }}
{{- end }}
{{- end }}
{{- if not $existing }}
{{- if not (.config.prometheus | default dict).url }}
{{- fail "config.prometheus.url is missing; set it to the address of your Prometheus, such as http://prometheus.monitoring.svc:9090" }}
{{- end }}
{{- $config := include "autoscaler.config" $ | fromYaml }}
{{- $listen := $config.listen | default "null" }}
{{- if not (has $listen (list ":9191" "0.0.0.0:9191" "[::]:9191")) }}
{{- fail (printf "config.listen is %s, but the probes use port 9191 of the pod's address; remove config.listen" $listen) }}
{{- end }}
{{- $listen = ($config.web | default dict).listen | default "null" }}
{{- if and .web.enabled (ne (regexFind "[0-9]+$" $listen) (toString .web.port)) }}
{{- fail (printf "config.web.listen is %s, but web.port is %v; remove config.web.listen and set only web.port" $listen .web.port) }}
{{- end }}
{{- if ne .leaderElection.enabled (eq true ($config.leaderElection | default dict).enabled) }}
{{- fail "config.leaderElection.enabled differs from leaderElection.enabled; set only leaderElection.enabled" }}
{{- end }}
{{- if ne .objects.enabled (eq true ($config.objects | default dict).enabled) }}
{{- fail "config.objects.enabled differs from objects.enabled, which also grants the rights; set only objects.enabled" }}
{{- end }}
{{- if .config.shards }}
{{- fail "config.shards needs a StatefulSet, which this chart does not have; use the kustomize component config/kubernetes/components/shards" }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

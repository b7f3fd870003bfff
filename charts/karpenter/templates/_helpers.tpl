{{/* The chart's name. */}}
{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The full name of what belongs to this release. */}}
{{- define "karpenter.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* What selects the pods of this release. */}}
{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "karpenter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The name of the ServiceAccount. */}}
{{- define "karpenter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The image: by digest where one is given. */}}
{{- define "karpenter.image" -}}
{{- $image := .Values.controller.image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/*
The settings as environment variables. Each key of .Values.settings becomes the variable that the controller reads:
batchIdleDuration becomes BATCH_IDLE_DURATION. The names of charts before v0.33 fill in what is empty.
*/}}
{{- define "karpenter.settings" -}}
{{- $variables := dict "clusterCABundle" "CLUSTER_CA_BUNDLE" "isolatedVPC" "ISOLATED_VPC" "reservedENIs" "RESERVED_ENIS" "ignoreDRARequests" "IGNORE_DRA_REQUESTS" "kubeClientQPS" "KUBE_CLIENT_QPS" }}
{{- $old := dict "clusterName" "clusterName" "clusterEndpoint" "clusterEndpoint" "clusterCABundle" "clusterCABundle" "defaultInstanceProfile" "defaultInstanceProfile" "interruptionQueueName" "interruptionQueue" "interruptionQueue" "interruptionQueue" "isolatedVPC" "isolatedVPC" "vmMemoryOverheadPercent" "vmMemoryOverheadPercent" "reservedENIs" "reservedENIs" }}
{{- $settings := omit (deepCopy .Values.settings) "aws" "featureGates" "stateNamespace" }}
{{- range $key, $value := .Values.settings.aws }}
{{- if and (hasKey $old $key) (ne (toString $value) "") }}
{{- $new := get $old $key }}
{{- $now := get $settings $new }}
{{- if or (kindIs "invalid" $now) (eq (toString $now) "") (not (kindIs "string" $now)) }}
{{- $_ := set $settings $new $value }}
{{- end }}
{{- end }}
{{- end }}
{{- if not $settings.clusterName }}
{{- fail "settings.clusterName is not set: pass --set settings.clusterName=NAME, the name of your EKS cluster" }}
{{- end }}
{{- range $key, $value := $settings }}
{{- if and (not (kindIs "invalid" $value)) (ne (toString $value) "") }}
- name: {{ default (snakecase $key | upper) (get $variables $key) }}
  value: {{ toString $value | quote }}
{{- end }}
{{- end }}
{{- $gates := list }}
{{- range $key, $value := .Values.settings.featureGates }}
{{- $gates = append $gates (printf "%s%s=%v" (substr 0 1 $key | upper) (substr 1 (len $key) $key) $value) }}
{{- end }}
- name: FEATURE_GATES
  value: {{ join "," $gates | quote }}
{{- end }}

{{/*
Where launches under way and what was learnt are kept, as ConfigMaps: the release's namespace, or one of its own where
that is kube-system. Rights on the ConfigMaps of kube-system would reach aws-auth.
*/}}
{{- define "karpenter.stateNamespace" -}}
{{- $own := ternary "karpenter-state" .Release.Namespace (eq .Release.Namespace "kube-system") }}
{{- $chosen := default $own .Values.settings.stateNamespace }}
{{- if eq $chosen "kube-system" }}
{{- fail "settings.stateNamespace is kube-system, and rights on its ConfigMaps would reach aws-auth: leave it empty, or name a namespace of Karpenter's own" }}
{{- end }}
{{- $chosen }}
{{- end }}

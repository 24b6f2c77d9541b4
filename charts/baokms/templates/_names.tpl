{{/*
The names of what the chart makes are those of config/, whatever the release is
called: the admission policy, the bindings and the operator's commands know them.
*/}}

{{/* The labels that select a pod; takes the component's name. */}}
{{- define "baokms.selector" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* The labels of every object; takes the component's name. */}}
{{- define "baokms.labels" -}}
{{ include "baokms.selector" . }}
app.kubernetes.io/part-of: baokms
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name (.root.Chart.Version | replace "+" "_") }}
{{- end }}

{{/* The image with its tag, its digest, or both. */}}
{{- define "baokms.image" -}}
{{- $image := .Values.image -}}
{{- $tag := $image.tag -}}
{{- if not (or $tag $image.digest) }}{{ $tag = .Chart.AppVersion }}{{ end -}}
{{ $image.repository }}
{{- with $tag }}:{{ . }}{{ end }}
{{- with $image.digest }}@{{ . }}{{ end }}
{{- end }}

{{/* The directory of the report socket on the node and in the pod. */}}
{{- define "baokms.socketDirectory" -}}
{{ dir .Values.reporter.reportSocket }}
{{- end }}

{{/*
Says whether the plans are in this cluster, so that rights are needed here.
*/}}
{{- define "baokms.managesThisCluster" -}}
{{- if and .Values.manager.enabled (not .Values.manager.kubeconfig.secretName) }}true{{ end }}
{{- end }}
{{- define "baokms.reportsToThisCluster" -}}
{{- if and .Values.reporter.enabled (not .Values.reporter.kubeconfig.secretName) }}true{{ end }}
{{- end }}

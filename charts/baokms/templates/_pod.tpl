{{/* What both pods have: nobody's user, and no right that the kernel could give. */}}
{{- define "baokms.podSecurity" -}}
runAsNonRoot: true
# The image's own: nobody on the node.
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "baokms.containerSecurity" -}}
allowPrivilegeEscalation: false
privileged: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Where pods are placed and how they are marked; takes the component's values. */}}
{{- define "baokms.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
The metadata of a pod; takes root, the component's name and its values. The chart's
labels win: they select the pod.
*/}}
{{- define "baokms.podMetadata" -}}
labels: {{- toYaml (merge (fromYaml (include "baokms.labels" .)) .values.podLabels) | nindent 2 }}
{{- with .values.podAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Where the kubeconfig of another cluster is in a pod. */}}
{{- define "baokms.kubeconfigDirectory" -}}
/etc/baokms
{{- end }}

{{/*
What values.schema.json cannot say: rules between values, with what to do.
*/}}
{{- define "baokms.refusals" -}}
{{- $v := .Values -}}
{{- if eq .Release.Namespace "default" }}
{{- fail "the namespace default already holds the role for Events, and takes every other pod: install it into one of its own, with --namespace baokms-system --create-namespace" }}
{{- end }}
{{- if not (or $v.manager.enabled $v.reporter.enabled $v.crds.install) }}
{{- fail "manager.enabled, reporter.enabled and crds.install are all false, so there is nothing to install: set one of them" }}
{{- end }}
{{- if and $v.remoteReporters.enabled (not (or (include "baokms.managesThisCluster" .) (include "baokms.reportsToThisCluster" .))) }}
{{- fail "remoteReporters.enabled is for the cluster that holds the plans, and nothing of this release works there: set it in the release of that cluster" }}
{{- end }}
{{- if $v.reporter.enabled }}
{{- include "baokms.socketRefusals" . }}
{{- end }}
{{- $monitor := $v.manager.metrics.serviceMonitor -}}
{{- if and $v.manager.enabled $monitor.enabled }}
{{- if not $v.manager.metrics.enabled }}
{{- fail "manager.metrics.serviceMonitor.enabled needs manager.metrics.enabled: there would be nothing to scrape" }}
{{- end }}
{{- if not (or $v.manager.metrics.certificateSecretName $monitor.insecureSkipVerify) }}
{{- fail "manager.metrics.serviceMonitor would send Prometheus' token to whoever answers: name a certificate in manager.metrics.certificateSecretName, or accept it with manager.metrics.serviceMonitor.insecureSkipVerify" }}
{{- end }}
{{- end }}
{{- end }}

{{/* The reporter sees the whole directory of the socket, so it must hold no more. */}}
{{- define "baokms.socketRefusals" -}}
{{- $shown := include "baokms.socketDirectory" . -}}
{{- /* /var/run is /run. */ -}}
{{- $directory := regexReplaceAll "^/var/run(/|$)" $shown "/run$1" -}}
{{- $top := index (splitList "/" $directory) 1 -}}
{{- $shared := list "/run/openbao-kms" "/var/lib" "/var/log" "/var/tmp" -}}
{{- if or (lt (len (splitList "/" $directory)) 3) (has $directory $shared) (has $top (list "etc" "usr" "proc" "sys" "dev")) }}
{{- fail (printf "reporter.reportSocket is in %s, where other things of the node are, such as the KMS socket, and the reporter would see all of it: put server.reportSocketPath into a directory of its own, such as /run/openbao-kms-report/report.sock" $shown) }}
{{- end }}
{{- end }}

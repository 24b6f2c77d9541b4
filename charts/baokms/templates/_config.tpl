{{/*
Renders the objects of files of config/, of which files/ holds copies: what may
never differ from them is not written a second time here. Takes root, file, the
component's name for the labels, optionally the kinds to take (all) and
annotations to add. The namespace baokms-system of config/ becomes the release's.
*/}}
{{- define "baokms.config" -}}
{{- $o := . -}}
{{- $text := .root.Files.Get .file | replace "baokms-system" .root.Release.Namespace -}}
{{- if not $text }}{{ fail (printf "the chart lacks %s: pack it again from a whole checkout" .file) }}{{ end -}}
{{- range regexSplit "(?m)^---\\s*$" $text -1 -}}
{{- $object := fromYaml . -}}
{{- if hasKey $object "Error" }}{{ fail (printf "%s is not valid YAML: %s" $o.file $object.Error) }}{{ end -}}
{{- if and $object.kind (or (not $o.kinds) (has $object.kind $o.kinds)) -}}
{{- $labels := fromYaml (include "baokms.labels" $o) -}}
{{- $meta := $object.metadata -}}
{{- $_ := set $meta "labels" (mergeOverwrite (default dict $meta.labels) $labels) -}}
{{- with $o.annotations }}{{ $_ := set $meta "annotations" (mergeOverwrite (default dict $meta.annotations) .) }}{{ end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{- define "bolide.name" -}}
{{- .Release.Name | replace "." "-" -}}
{{- end -}}

{{- define "bolide.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "bolide.metadata" -}}
name: {{ include "bolide.name" . }}
labels:
  {{- include "bolide.selector" . | nindent 2 }}
{{- end -}}

{{- /* Helm reads whole numbers as fractions, and would write 16777216 as 1.6777216e+07. */ -}}
{{- define "bolide.value" -}}
{{- if and (kindIs "float64" .) (eq . (floor .)) -}}
{{- int64 . -}}
{{- else -}}
{{- toString . -}}
{{- end -}}
{{- end -}}

{{- define "qanat.name" -}}
{{ printf "%s-qanat" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "qanat.labels" -}}
app.kubernetes.io/name: qanat
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* A setting's value as text. Numbers of a values file are float64, which Go writes as 6.048e+08. */}}
{{- define "qanat.text" -}}
{{- if not (kindIs "float64" .value) }}
{{- .value | toString }}
{{- else if gt (maxf .value (mulf .value -1)) 9007199254740991.0 }}
{{- fail (printf "settings: write the number of %s in quotes: it has too many digits" .name) }}
{{- else if eq (floor .value) .value }}
{{- .value | int64 }}
{{- else }}
{{- .value | toString }}
{{- end }}
{{- end }}

{{/* What cannot work is refused before anything is installed. */}}
{{- define "qanat.refusals" -}}
{{- if and (gt (int .Values.replicas) 1) (not .Values.etcd.endpoints) }}
{{- fail "replicas: more than one broker needs etcd.endpoints, because SQLite cannot be shared between pods" }}
{{- end }}
{{- if and (not .Values.open) (not .Values.tls.secret) }}
{{- fail "tls.secret: name a secret with broker.pem, ca.crt and inter-broker.credentials, or say open: true" }}
{{- end }}
{{- if and .Values.open (eq .Values.environment "production") }}
{{- fail "open: true is refused in production; name a tls.secret, or another environment" }}
{{- end }}
{{- end }}

{{- define "qanat.name" -}}
{{ printf "%s-qanat" .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "qanat.labels" -}}
app.kubernetes.io/name: qanat
app.kubernetes.io/instance: {{ .Release.Name }}
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

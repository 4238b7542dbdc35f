{{- define "model-gateway.name" -}}
{{- default .Release.Name .Values.nameOverride | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "model-gateway.selectorLabels" -}}
app.kubernetes.io/name: model-gateway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "model-gateway.labels" -}}
{{ include "model-gateway.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- /* Fails where the nodes could not agree about money, keys or limits. */ -}}
{{- define "model-gateway.check" -}}
{{- $isMany := or (gt (int .Values.replicas) 1) .Values.autoscaling.enabled -}}
{{- if and $isMany (not .Values.database.existingSecret) -}}
{{- fail "More than one node needs PostgreSQL: set database.existingSecret, or replicas: 1 and autoscaling.enabled: false. SQLite belongs to one node." -}}
{{- end -}}
{{- if and (ne (toString .Values.processes) "1") (not .Values.database.existingSecret) -}}
{{- fail "Several processes need PostgreSQL: set database.existingSecret, or processes: 1." -}}
{{- end -}}
{{- if and $isMany (not .Values.masterKey.existingSecret) -}}
{{- fail "More than one node needs a common master key: set masterKey.existingSecret. Otherwise each node would create its own." -}}
{{- end -}}
{{- if and (not .Values.persistence.enabled) (not .Values.database.existingSecret) -}}
{{- fail "Without a volume the SQLite database would be lost with its pod: set persistence.enabled: true, or database.existingSecret." -}}
{{- end -}}
{{- if and (not .Values.persistence.enabled) (not .Values.masterKey.existingSecret) -}}
{{- fail "Without a volume the master key would be lost with its pod: set masterKey.existingSecret." -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.token.existingSecret) -}}
{{- fail "Metrics need the token of an administrator: set serviceMonitor.token.existingSecret." -}}
{{- end -}}
{{- end -}}

{{- define "spate.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "spate.labels" -}}
app.kubernetes.io/name: spate
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "spate.selector" -}}
app.kubernetes.io/name: spate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spate.image" -}}
{{- required "image.repository: name the repository that the image of deployments/docker/Dockerfile was pushed to" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "spate.tls" -}}
{{- if not (has .Values.tls.mode (list "existing" "certManager" "none")) }}
{{- fail (printf "tls.mode %q: want existing, certManager or none" .Values.tls.mode) }}
{{- end }}
{{- if eq .Values.tls.mode "none" -}}
- --insecure-plaintext
{{- else -}}
- --tls-ca=/etc/spate/tls/ca.crt
- --tls-cert=/etc/spate/tls/tls.crt
- --tls-key=/etc/spate/tls/tls.key
{{- end }}
{{- end }}

{{- define "spate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "spate.agentSecurity" -}}
{{- if .Values.agents.packetTimes -}}
runAsNonRoot: false
runAsUser: 0
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL], add: [BPF]}
{{- else -}}
{{- include "spate.containerSecurity" . }}
{{- end }}
{{- end }}

{{- define "spate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

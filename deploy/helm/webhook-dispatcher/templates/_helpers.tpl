{{- define "image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "labels" -}}
app.kubernetes.io/name: webhook-dispatcher
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* What stands in the specification of every pod, before its containers. */}}
{{- define "pod" -}}
# A service called `webhook` would otherwise put names such as WEBHOOK_PORT into the environment, which are refused as
# misspelt settings.
enableServiceLinks: false
automountServiceAccountToken: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* What stands in every container. secret: the one with its secrets; env: settings beside the installation. */}}
{{- define "container" -}}
image: {{ include "image" .root }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
envFrom:
  - secretRef: { name: {{ .secret }} }
env:
  - { name: WEBHOOK_INSTALLATION, value: {{ required "installation: give it a name, such as prod-eu1" .root.Values.installation | quote }} }
  {{- range $name, $value := .env }}
  - { name: {{ $name }}, value: {{ $value | quote }} }
  {{- end }}
{{- end }}

{{- define "authority" -}}
- name: authority
  configMap: { name: {{ .Values.database.ca }} }
{{- end }}

{{- define "authorityMount" -}}
- { name: authority, mountPath: /etc/webhook-dispatcher, readOnly: true }
{{- end }}

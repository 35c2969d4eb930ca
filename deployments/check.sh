#!/usr/bin/env bash
# Checks the deployment files with the tools of their platforms: Helm, the schemas of Kubernetes and cert-manager,
# Compose's model, systemd, promtool. `make check-deployments` builds the tools and runs this script, from the root of the
# repository: deployments/check.sh BIN CERT_MANAGER_VERSION.
set -euo pipefail
bin=$(realpath "$1")
made=$(mktemp -d)
trap 'rm -rf "$made"' EXIT

chart=deployments/helm/spate
image=(--set image.repository=registry.example/spate,image.tag=v1)

# The ways to use the chart, each with the values that differ from the defaults.
declare -A ways=(
  [plain]=''
  [certificates]='tls.mode=certManager'
  [issuer]='tls.mode=certManager,tls.certManager.issuerRef.name=spate,tls.certManager.issuerRef.kind=ClusterIssuer'
  [agents-elsewhere]='coordinator.enabled=false,agents.region=us,agents.coordinators={10.0.0.1:7700}'
  [daemonset]='agents.kind=DaemonSet,agents.hostNetwork=true,agents.nodeSelector.pool=load,agents.awayFrom.app=vllm'
  [exposed]='coordinator.service.type=LoadBalancer,networkPolicy.clients[0].ipBlock.cidr=10.0.0.0/8,coordinator.sinks[0]=influx+http://influxdb:8086?bucket=spate,coordinator.sinkSecret=influx,coordinator.accessSecret=access'
  [open]='tls.mode=none,agents.packetTimes=false,networkPolicy.enabled=false,agents.allowTargets={llm.example.com},agents.extraArgs={--log-level=debug},agents.labels.pool=big,agents.maxUnavailable=2'
)
for way in "${!ways[@]}"; do
  values=("${image[@]}")
  if [ -n "${ways[$way]}" ]; then values+=(--set "${ways[$way]}"); fi
  "$bin/helm" lint --quiet --strict "$chart" "${values[@]}"
  "$bin/helm" template spate "$chart" "${values[@]}" >"$made/$way.yaml"
done
# With its default values the chart passes lint, and its installation says which value is missing. The chart refuses
# unknown values.
"$bin/helm" lint --quiet --strict "$chart"
if "$bin/helm" template spate "$chart" >/dev/null 2>"$made/said" || ! grep -q 'image.repository: name the repository' "$made/said"; then
  echo 'The chart is installed without an image.' >&2
  exit 1
fi
if "$bin/helm" lint "$chart" "${image[@]}" --set agents.replica=3 >/dev/null 2>&1; then
  echo 'The chart takes agents.replica.' >&2
  exit 1
fi
crds=$(go mod download -json "github.com/cert-manager/cert-manager@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')/deploy/crds
"$bin/kubectl-validate" --local-crds "$crds" "$made"

(cd deployments/compose && "$bin/compose-go" compose.yaml >"$made/compose.out")

if command -v systemd-analyze >/dev/null; then
  # The units must not fail because the programs are not installed here.
  for unit in deployments/systemd/*.service; do
    sed 's|^ExecStart=/usr/bin/spate-[a-z]*|ExecStart=/bin/true|' "$unit" >"$made/$(basename "$unit")"
  done
  systemd-analyze verify --man=no "$made/spate-coordinator.service" "$made/spate-agent@.service"
else
  echo 'No systemd here: its units are not checked.' >&2
fi
"$bin/promtool" test rules deployments/prometheus/alerts_test.yaml >"$made/rules.out" 2>&1 || { cat "$made/rules.out" >&2; exit 1; }
echo "Deployments: ${#ways[@]} uses of the chart, compose.yaml, units and alert rules are as their programs want them."

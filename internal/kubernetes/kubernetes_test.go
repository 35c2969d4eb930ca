package kubernetes

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// someSlices are the EndpointSlices of a Service as kubectl prints them, cut to a few fields: ready pods in two address
// families, and one that is starting.
const someSlices = `{"apiVersion": "v1", "kind": "List", "items": [
 {"addressType": "IPv4", "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
  "metadata": {"labels": {"kubernetes.io/service-name": "gateway"}, "name": "gateway-abc12", "namespace": "llm"},
  "endpoints": [
   {"addresses": ["10.1.0.7"], "conditions": {"ready": true, "serving": true, "terminating": false},
    "nodeName": "n1", "targetRef": {"kind": "Pod", "name": "gateway-0", "namespace": "llm"}},
   {"addresses": ["10.1.0.5"], "conditions": {}},
   {"addresses": ["10.1.0.9"], "conditions": {"ready": false, "serving": false}}],
  "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}, {"name": "metrics", "port": 9000, "protocol": "TCP"}]},
 {"addressType": "IPv6", "endpoints": [{"addresses": ["fd00::7"], "conditions": {"ready": true}}],
  "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}, {"name": "metrics", "port": 9000}]}]}`

// somePods are pods as kubectl prints them: prefill and decode of llm-d, a frontend of Dynamo, and one not ready.
const somePods = `{"apiVersion": "v1", "kind": "List", "items": [
 {"kind": "Pod", "metadata": {"name": "p-0", "labels": {"app": "x", "llm-d.ai/role": "prefill"}},
  "status": {"podIP": "10.1.0.20", "conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]}},
 {"kind": "Pod", "metadata": {"name": "d-0", "labels": {"app": "x", "app.kubernetes.io/component": "engine", "llm-d.ai/role": "decode"}},
  "status": {"podIP": "10.1.0.10", "conditions": [{"type": "Ready", "status": "True"}]}},
 {"kind": "Pod", "metadata": {"name": "f-0", "labels": {"nvidia.com/dynamo-component-type": "frontend"}},
  "status": {"podIP": "10.1.0.30", "conditions": [{"type": "Ready", "status": "True"}]}},
 {"kind": "Pod", "metadata": {"name": "bare-0"}, "status": {"podIP": "10.1.0.40", "conditions": [{"type": "Ready", "status": "True"}]}},
 {"kind": "Pod", "metadata": {"name": "d-1", "labels": {"llm-d.ai/role": "decode"}},
  "status": {"podIP": "10.1.0.11", "conditions": [{"type": "Ready", "status": "False"}]}}]}`

// answers answers kubectl's questions, and notes them.
type answers struct {
	slices, pods string
	asked        []string
}

func (a *answers) get(to any, args ...string) error {
	a.asked = append(a.asked, strings.Join(args, " "))
	if args[0] == "pods" {
		return json.Unmarshal([]byte(a.pods), to)
	}
	return json.Unmarshal([]byte(a.slices), to)
}

func TestLook(t *testing.T) {
	a := &answers{slices: someSlices, pods: somePods}
	f, err := look(&spatev1.KubernetesTarget{Service: "gateway", Port: "http", MetricsSelector: "app=x"}, a.get)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"http://10.1.0.5:8000", "http://10.1.0.7:8000", "http://[fd00::7]:8000"}; !slices.Equal(f.Endpoints, want) {
		t.Errorf("endpoints %q, want %q", f.Endpoints, want)
	}
	if want := []string{"http://10.1.0.10:8000/metrics", "http://10.1.0.20:8000/metrics", "http://10.1.0.30:8000/metrics",
		"http://10.1.0.40:8000/metrics"}; !slices.Equal(f.Metrics, want) {
		t.Errorf("metrics %q, want %q", f.Metrics, want)
	}
	if want := map[string]string{"http://10.1.0.10:8000/metrics": "decode", "http://10.1.0.20:8000/metrics": "prefill",
		"http://10.1.0.30:8000/metrics": "frontend"}; !maps.Equal(f.Roles, want) {
		t.Errorf("roles %q, want %q", f.Roles, want)
	}
	if want := []string{"endpointslices --selector=kubernetes.io/service-name=gateway", "pods --selector=app=x"}; !slices.Equal(a.asked, want) {
		t.Errorf("asked %q, want %q", a.asked, want)
	}
}

// A port by number, and metrics alone.
func TestLookOtherwise(t *testing.T) {
	a := &answers{slices: someSlices, pods: somePods}
	f, err := look(&spatev1.KubernetesTarget{Service: "gateway", Port: "9000"}, a.get)
	if err != nil || f.Endpoints[0] != "http://10.1.0.5:9000" || f.Metrics != nil {
		t.Errorf("by number: %v, %v", f, err)
	}
	f, err = look(&spatev1.KubernetesTarget{MetricsSelector: "app=x", MetricsPort: 8081}, a.get)
	if err != nil || f.Endpoints != nil || f.Roles["http://10.1.0.20:8081/metrics"] != "prefill" || len(f.Roles) != 3 {
		t.Errorf("metrics alone: %v, %v", f, err)
	}
}

func TestLookFindsNothing(t *testing.T) {
	for want, c := range map[string]struct {
		target *spatev1.KubernetesTarget
		a      answers
	}{
		`there is no Service gone with pods in namespace llm of context prod`: {
			&spatev1.KubernetesTarget{Service: "gone", Namespace: "llm", Context: "prod"}, answers{slices: `{"items": []}`}},
		`service gateway in the namespace of kubectl's context has 2 ports ("http", "metrics"): name one by port`: {
			&spatev1.KubernetesTarget{Service: "gateway"}, answers{slices: someSlices}},
		`service gateway in namespace llm has no port "grpc"; it has "http", "metrics"`: {
			&spatev1.KubernetesTarget{Service: "gateway", Port: "grpc", Namespace: "llm"}, answers{slices: someSlices}},
		`no pod behind Service gateway is ready in namespace llm, and 1 are not`: {
			&spatev1.KubernetesTarget{Service: "gateway", Namespace: "llm"}, answers{slices: `{"items": [{"endpoints":
				[{"addresses": ["10.1.0.9"], "conditions": {"ready": false}}], "ports": [{"port": 80}]}]}`}},
		`no pod with app=y is ready in namespace llm, of 0 found`: {
			&spatev1.KubernetesTarget{MetricsSelector: "app=y", MetricsPort: 1, Namespace: "llm"}, answers{pods: `{}`}},
		`the port of the selected pods' metrics is not known: give it by metrics_port`: {
			&spatev1.KubernetesTarget{MetricsSelector: "app=x"}, answers{pods: somePods}},
	} {
		if _, err := look(c.target, c.a.get); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	failed := errors.New("refused")
	if _, err := look(&spatev1.KubernetesTarget{Service: "s"},
		func(any, ...string) error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}

func TestWithoutKubectl(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Look(t.Context(), &spatev1.KubernetesTarget{Service: "s"})
	if want := "kubectl, which finds pods and starts them, is not installed: install it, or name endpoints and hosts yourself"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

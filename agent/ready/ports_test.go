package ready

import (
	"runtime"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream/socket"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestSourceAddressesAreTried(t *testing.T) {
	got, err := SourceAddresses([]string{"127.0.0.1"})
	if err != nil || len(got) != 1 || got[0].String() != "127.0.0.1" {
		t.Errorf("%v, %v", got, err)
	}
	for want, list := range map[string][]string{
		`"localhost" is not a unicast IP address`: {"localhost"}, `"0.0.0.0" is not a unicast IP address`: {"0.0.0.0"},
		"is listed twice": {"127.0.0.1", "127.0.0.1"},
		"192.0.2.1 is not available on this machine": {"127.0.0.1", "192.0.2.1"},
	} {
		if _, err := SourceAddresses(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", list, err, want)
		}
	}
}

// An assignment with too few ports is rejected before it starts, with advice.
func TestPortsOfAStage(t *testing.T) {
	sources, err := SourceAddresses([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	target := &spatev1.Target{Endpoints: []string{"http://a", "http://a/prefix", "https://b"}}
	_, each := socket.LocalPorts()
	if (each > 0) != (runtime.GOOS == "linux") || each > 65535 {
		t.Fatalf("%d ports", each)
	}
	if each == 0 {
		t.Skip("this system does not tell its ports")
	}
	for want, p := range map[int]ports{
		2 * each: Limits{}.portsTowards(target), each: Limits{Sources: sources}.portsTowards(&spatev1.Target{
			Endpoints: target.GetEndpoints(), Connection: &spatev1.Connection{Proxy: "http://p"},
		}),
		4 * each: Limits{Sources: append(sources, sources...)}.portsTowards(target),
	} {
		if got := p.connections(1); got != want {
			t.Errorf("%+v are %d connections, want %d", p, got, want)
		}
		for shares := 1; shares <= 3; shares++ {
			l := Limits{AgentsInProcess: shares}
			if err := l.checkPorts(want/shares, p); err != nil {
				t.Error(err)
			}
			if err := l.checkPorts(want/shares+1, p); err == nil || !strings.Contains(err.Error(), "--source-address") {
				t.Errorf("one more than %d: %v", want/shares, err)
			}
		}
	}
	if err := (Limits{}).checkPorts(1<<30, ports{}); err != nil {
		t.Errorf("where ports are not known: %v", err)
	}
}

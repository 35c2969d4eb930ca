package membership

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
)

// TestBlockedUDPIsSaidOncePerPeer: datagrams from a to b are lost, TCP works, and memberlist's own log shows it.
func TestBlockedUDPIsSaidOncePerPeer(t *testing.T) {
	t.Parallel()
	b := join(t, config("b", RoleAgent, 0))
	var said lines
	cfg := config("a", RoleAgent, 0, b.Address())
	cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	cfg.network = func(ctx context.Context, mc *memberlist.Config) (memberlist.NodeAwareTransport, error) {
		t, err := listen(ctx, mc)
		return firewall{t, b.Address()}, err
	}
	a := join(t, cfg)
	await(t, a, 2)
	await(t, b, 2)
	said.await(t, "UDP is blocked")
	for _, want := range []string{"from=" + a.Address(), "to=" + b.Address(), "member=b", "open UDP both ways"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("%q is missing in: %s", want, said.String())
		}
	}
	await(t, a, 2) // TCP is enough to stay; on a machine so busy that TCP is late too, to come back
	await(t, b, 2)
}

// firewall drops datagrams to one address.
type firewall struct {
	memberlist.NodeAwareTransport
	blocked string
}

func (f firewall) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	if a.Addr == f.blocked {
		return time.Now(), nil
	}
	return f.NodeAwareTransport.WriteToAddress(b, a)
}

func TestDatagrams(t *testing.T) {
	failed := "[DEBUG] memberlist: Failed UDP ping: b-1 (timeout reached)"
	suspect := "[INFO] memberlist: Suspect b-1 has failed, no acks received"
	const answered, gone = "answered", "gone"
	for name, tc := range map[string]struct {
		events []string
		said   int
	}{
		"two lost":               {[]string{failed, failed}, 0},
		"three in a row":         {[]string{failed, failed, failed}, 1},
		"said once":              {[]string{failed, failed, failed, failed, failed, failed}, 1},
		"an answer between":      {[]string{failed, failed, answered, failed, failed}, 0},
		"dead, not blocked":      {[]string{failed, suspect, failed, suspect, failed, suspect}, 0},
		"well and blocked again": {[]string{failed, failed, failed, answered, failed, failed, failed}, 2},
		"gone":                   {[]string{failed, failed, gone, failed, failed}, 0},
		"other lines":            {[]string{"[DEBUG] memberlist: Failed UDP ping", "Suspect", "", "x"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatagrams()
			for _, e := range tc.events {
				switch e {
				case answered:
					d.NotifyPingComplete(&memberlist.Node{Name: "b-1"}, 0, nil)
				case gone:
					d.drop("b-1")
				default:
					d.line(e)
				}
			}
			if n := len(d.blocked); n != tc.said {
				t.Errorf("said %d times, want %d", n, tc.said)
			}
			if tc.said > 0 && <-d.blocked != "b-1" {
				t.Error("another peer was named")
			}
		})
	}
}

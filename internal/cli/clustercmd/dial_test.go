package clustercmd

import (
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/internal/cli/clienttest"
	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A coordinator that answers can be reached. A person who reads that it cannot looks at the network.
func TestARefusalIsNotUnreachable(t *testing.T) {
	for err, want := range map[error]string{
		status.Error(codes.PermissionDenied, "no"):   "refused: no",
		status.Error(codes.InvalidArgument, "no"):    "refused: no",
		status.Error(codes.FailedPrecondition, "no"): "refused: no",
		status.Error(codes.NotFound, "no"):           "refused: no",
		status.Error(codes.ResourceExhausted, "no"):  "refused: no",
		status.Error(codes.Internal, "no"):           "failed: no",
		status.Error(codes.Unavailable, "no"):        "cannot be reached: no",
		errors.New("no"):                             "cannot be reached: no",
	} {
		got := Unreachable("10.0.0.1:7700", err)
		if want = "the coordinator at 10.0.0.1:7700 " + want; got.Error() != want || command.ExitCode(got) != command.ExitInput {
			t.Errorf("%v: %v, exit code %d; want %q", err, got, command.ExitCode(got), want)
		}
	}
}

// An address that is not host:port is named as such, not as one whose connection would be unencrypted.
func TestAnAddressWithoutPortIsRefusedFirst(t *testing.T) {
	for address, want := range map[string]string{
		"127.0.0.1":             `--coordinator "127.0.0.1": want host:port, for example 127.0.0.1:7700`,
		"http://127.0.0.1:7700": `--coordinator "http://127.0.0.1:7700": want host:port, for example 127.0.0.1:7700`,
		"10.0.0.1:7700":         "the connection to the coordinator at 10.0.0.1:7700 would be unencrypted: give --tls-ca, --tls-cert and --tls-key, or --insecure-plaintext if you trust the network",
	} {
		_, err := (&Flags{Coordinator: address}).Connect()
		if err == nil || err.Error() != want || command.ExitCode(err) != command.ExitInput {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
}

// An answer may be larger than gRPC's default, such as the start of a run of many agents.
func TestALongAnswerIsRead(t *testing.T) {
	const agents = 100_000
	started := &spatev1.RunStarted{}
	for range agents {
		started.Agents = append(started.Agents, &spatev1.AgentInfo{
			Name: "agent-000001", Region: "eu-central-1", Version: "v0.1.0", Host: "load-1.example.com", Cores: 8, Weight: 8,
		})
	}
	event := &spatev1.RunEvent{Event: &spatev1.RunEvent_RunStarted{RunStarted: started}}
	if size := proto.Size(event); size <= 4<<20 {
		t.Fatalf("the event has only %d bytes", size)
	}
	service := &clienttest.FakeService{Events: []*spatev1.RunEvent{event}}
	address, _ := service.Serve(t, "127.0.0.1:0")
	conn, err := Dial(address, &command.TLS{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := spatev1.NewRunServiceClient(conn).FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: "r"})
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if got := len(m.GetEvent().GetRunStarted().GetAgents()); err != nil || got != agents {
		t.Errorf("%d agents: %v", got, err)
	}
}

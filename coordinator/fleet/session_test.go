package fleet

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestAnAgentThatDoesNotReadIsCutOff(t *testing.T) {
	s := NewSession(&spatev1.Hello{}, "", certs.Identity{})
	for range outboxSize + 2 {
		s.Send(&spatev1.ConnectResponse{})
	}
	<-s.Gone
	if status.Code(s.Reason) != codes.ResourceExhausted {
		t.Errorf("reason %v", s.Reason)
	}
}

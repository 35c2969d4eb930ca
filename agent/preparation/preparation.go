// Package preparation is a stand-in.
package preparation

import (
	"context"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

type Found struct {
	Preparation *spatev1.Preparation
	Words       []string
	Template    uint32
}

func Find(ctx context.Context, c *stream.Client, s *spatev1.Stage) (Found, error) {
	return Found{Preparation: &spatev1.Preparation{}}, nil
}

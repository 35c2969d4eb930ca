package agent

import (
	"errors"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// revise changes the share of a load under way.
func (l *load) revise(*spatev1.Stripe) error {
	return errors.New("this agent cannot change its share")
}

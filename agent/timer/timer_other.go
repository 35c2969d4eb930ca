//go:build !linux

package timer

import (
	"context"
	"errors"
)

func newPrecise(context.Context) (alarm, error) { return nil, errors.ErrUnsupported }

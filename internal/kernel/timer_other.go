//go:build !linux

package kernel

import (
	"context"
	"errors"
)

func newPrecise(context.Context) (alarm, error) { return nil, errors.ErrUnsupported }

package config

import (
	"fmt"
	"math"
	"time"
)

// checkShare returns an error if v is not from 0 to 1.
func checkShare(field string, v float64) error {
	if v >= 0 && v <= 1 {
		return nil
	}
	return fmt.Errorf("simulator: %s is %v: give 0 to 1", field, v)
}

// checkAtLeast returns an error if v is below least.
func checkAtLeast[T int | int64 | time.Duration](field string, v, least T) error {
	if v >= least {
		return nil
	}
	return fmt.Errorf("simulator: %s is %v: give at least %v", field, v, least)
}

// checkFinite returns an error if v is negative, infinite or not a number.
func checkFinite(field string, v float64) error {
	if v >= 0 && !math.IsInf(v, 1) {
		return nil
	}
	return fmt.Errorf("simulator: %s is %v: give 0 or more", field, v)
}

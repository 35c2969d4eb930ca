package schedule

import (
	"errors"
	"fmt"
	"math"
)

// Quantise turns capacities of any scale into integer weights that sum up to total and are as nearly proportional as
// possible. Every positive capacity gets at least 1, a capacity of 0 gets 0. It fails if a capacity is negative,
// infinite or NaN, if none is positive, or if total is less than the number of positive capacities or more than
// MaxCycle.
func Quantise(capacities []float64, total uint32) ([]uint32, error) {
	largest, positive, err := checkCapacities(capacities)
	if err != nil {
		return nil, err
	}
	if int64(total) < int64(positive) || total > MaxCycle {
		return nil, fmt.Errorf(
			"schedule: a total of %[2]d cannot be split over %[1]d positive capacities: use %[3]d to %[4]d", positive,
			total, positive, MaxCycle)
	}
	var sum float64
	for _, c := range capacities {
		sum += c / largest
	}
	weights := make([]uint32, len(capacities))
	left := int64(total)
	for i, c := range capacities {
		if c > 0 {
			weights[i] = max(1, uint32(c/largest/sum*float64(total)))
			left -= int64(weights[i])
		}
	}
	settle(weights, capacities, left)
	return weights, nil
}

// checkCapacities returns the largest capacity and how many are positive.
func checkCapacities(capacities []float64) (largest float64, positive int, err error) {
	for i, c := range capacities {
		if !(c >= 0) || math.IsInf(c, 1) {
			return 0, 0, fmt.Errorf("schedule: capacity %d is %v: it must be 0 or a positive number", i, c)
		}
		if c > 0 {
			positive++
		}
		largest = max(largest, c)
	}
	if positive == 0 {
		return 0, 0, errors.New("schedule: no capacity is positive: at least one must be")
	}
	return largest, positive, nil
}

// settle distributes what rounding down left over, or takes back what rounding up to 1 cost. It moves one unit at a
// time, to or from the agent that is furthest below or above its share by Webster's method.
func settle(weights []uint32, capacities []float64, left int64) {
	for ; left > 0; left-- {
		best, most := 0, 0.0
		for i, c := range capacities {
			if claim := c / float64(2*weights[i]+1); claim > most {
				best, most = i, claim
			}
		}
		weights[best]++
	}
	for ; left < 0; left++ {
		best, least := 0, math.Inf(1)
		for i, c := range capacities {
			if weights[i] < 2 {
				continue
			}
			if claim := c / float64(2*weights[i]-1); claim < least {
				best, least = i, claim
			}
		}
		weights[best]--
	}
}

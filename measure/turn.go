package measure

import "math/bits"

// Turns of sessions are measured in classes, so that long sessions take a bounded number of histograms: the first
// singleTurns turns by themselves, then as many as all before them together.
const singleTurns = 16

// TurnClasses is the number of classes of turns, from 0.
const TurnClasses = singleTurns + 32 - 4

// TurnClass returns the class of a turn, which counts from 0.
func TurnClass(turn uint32) int {
	if turn < singleTurns {
		return int(turn)
	}
	return singleTurns + bits.Len32(turn) - bits.Len32(singleTurns)
}

// TurnsOf returns the first and the last turn of a class.
func TurnsOf(class int) (first, last uint32) {
	if class < singleTurns {
		return uint32(class), uint32(class)
	}
	first = singleTurns << (class - singleTurns)
	return first, first + (first - 1)
}

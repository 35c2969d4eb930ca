package reason

// Hopeless says that a run gives a target up, and how to send it the whole load all the same.
func Hopeless(target, why string) string {
	return "target " + target + " is hopeless: " + why + "; --no-fail-fast sends the rest all the same"
}

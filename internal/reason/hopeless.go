package reason

// Hopeless returns a message that a run skips the rest of a target, and how to send it the whole load anyway.
func Hopeless(target, why string) string {
	return "target " + target + " is hopeless: " + why + "; --no-fail-fast sends the rest anyway"
}

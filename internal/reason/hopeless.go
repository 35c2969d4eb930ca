package reason

// HopelessTarget explains why a run skips the rest of a target, and how to send the target its whole load anyway.
func HopelessTarget(target, why string) string {
	return "target " + target + " is hopeless: " + why + "; --no-fail-fast sends the rest anyway"
}

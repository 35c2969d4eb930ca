package measure

// Definitions is the version of what the numbers mean. Whoever changes what a metric or counter counts, or how its
// value is taken, raises it: agents and coordinators of different definitions do not measure together, since their
// numbers cannot be added. docs/versions.md has its history.
const Definitions = 1

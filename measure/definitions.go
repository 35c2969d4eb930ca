package measure

// Definitions is the version of what the numbers mean. Raise it when you change what a metric or counter counts, or how
// its value is taken. Agents and coordinators with different definitions do not measure together, because their numbers
// cannot be added. docs/versions.md has the history.
const Definitions = 2

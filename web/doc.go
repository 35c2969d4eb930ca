// Package web shows a coordinator's runs: to people as pages that follow them live, to programs as REST with JSON
// under /api/v1, described by openapi.yaml. Each page consists of a frame, and of parts that change: a viewer's browser
// replaces them as new ones come. A page without its script shows the state of the moment at which it was asked for.
//
// It calls the coordinator's RunService in this process, and reads the directories of ended runs. A viewer who is slow,
// gone or hostile does not affect a run.
package web

// Package web shows a coordinator's runs: to people as pages that follow them live (package web/pages draws them), to
// programs as REST with JSON under /api/v1, described by openapi.yaml.
//
// It calls the coordinator's RunService in this process, and reads the directories of ended runs. A viewer who is slow,
// gone or hostile does not affect a run.
package web

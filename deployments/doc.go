// Package deployments holds what Spate is deployed with: a container image, Docker Compose, systemd units, a Helm chart
// and Grafana dashboards. Its tests check that these files fit the programs and each other. It has no code.
package deployments

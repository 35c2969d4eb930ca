// Package deployments holds what Spate is deployed with: a container image, Docker Compose, systemd units, a Helm chart
// and Grafana's dashboards. Its tests check that these files fit the programs and one another; it has no code.
package deployments

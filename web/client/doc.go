// Package client calls the REST of a coordinator. It is generated from web/openapi.yaml by `make generate`.
package client

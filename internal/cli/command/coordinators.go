package command

import (
	"context"
	"fmt"

	"github.com/spate-load/spate/coordinator/membership"
)

// CheckPlain refuses a plaintext connection to another machine, unless it is allowed.
func (t *TLS) CheckPlain(address string, allowed bool) error {
	if t.Given() || allowed || Loopback(address) {
		return nil
	}
	return fmt.Errorf(
		"the connection to the coordinator at %s would be unencrypted: give --tls-ca, --tls-cert and --tls-key, or --insecure-plaintext if you trust the network",
		address,
	)
}

// InTurn returns the next of the known coordinators at each call, so that one that does not answer is skipped. Gossip
// may name any address, so addresses are checked like typed ones.
func InTurn(finder membership.Finder, check func(address string) error) func(context.Context) (string, error) {
	attempt := 0
	return func(ctx context.Context) (string, error) {
		addresses, err := finder.Coordinators(ctx)
		if err != nil {
			return "", err
		}
		address := addresses[attempt%len(addresses)]
		attempt++
		return address, check(address)
	}
}

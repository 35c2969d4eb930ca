package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/spate-load/spate/api"
)

// bedrockSigner returns what signs requests by AWS's Signature Version 4, for a key of the form ID:SECRET or
// ID:SECRET:TOKEN, with the session token of temporary credentials. Any other key is a bearer token, which has no
// colon.
func bedrockSigner(key string) api.Sign {
	id, secret, signs := strings.Cut(key, ":")
	if !signs {
		return nil
	}
	secret, token, _ := strings.Cut(secret, ":")
	credentials := aws.Credentials{AccessKeyID: id, SecretAccessKey: secret, SessionToken: token}
	s := v4.NewSigner()
	return func(r *http.Request, body []byte, now time.Time) error {
		sum := sha256.Sum256(body)
		hash := hex.EncodeToString(sum[:])
		return s.SignHTTP(context.Background(), credentials, r, hash, "bedrock", bedrockRegion(r.Host), now)
	}
}

// usualRegion is the region of hosts that name none.
const usualRegion = "us-east-1"

// bedrockRegion returns the region in the name of an endpoint: bedrock-runtime.REGION.amazonaws.com, also behind the
// name of an interface in a private network.
func bedrockRegion(host string) string {
	labels := strings.Split(host, ".")
	i := slices.IndexFunc(labels, func(label string) bool { return strings.HasPrefix(label, "bedrock-runtime") })
	if i < 0 || i+1 >= len(labels) {
		return usualRegion
	}
	return labels[i+1]
}

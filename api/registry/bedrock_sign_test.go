package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// A request is signed with the keys, for the region of its host.
func TestSignature(t *testing.T) {
	body, at := []byte(`{"messages":[]}`), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	hash := sha256.Sum256(body)
	for _, tt := range []struct {
		key, host, region string
		credentials       aws.Credentials
	}{
		{"AKID:SECRET", "bedrock-runtime.eu-west-1.amazonaws.com", "eu-west-1",
			aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET"}},
		{"ASIA:a/b+c:TOKEN==", "vpce-1.bedrock-runtime-fips.us-west-2.vpce.amazonaws.com", "us-west-2",
			aws.Credentials{AccessKeyID: "ASIA", SecretAccessKey: "a/b+c", SessionToken: "TOKEN=="}},
		{"AKID:SECRET", "localhost:8000", "us-east-1",
			aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "SECRET"}},
	} {
		request := func() *http.Request {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				"http://"+tt.host+"/model/a.b-v1%3A0/converse-stream", nil)
			if err != nil {
				t.Fatal(err)
			}
			r.ContentLength = int64(len(body))
			return r
		}
		got, want := request(), request()
		if err := bedrockSigner(tt.key)(got, body, at); err != nil {
			t.Fatal(err)
		}
		if err := v4.NewSigner().SignHTTP(t.Context(), tt.credentials, want, hex.EncodeToString(hash[:]), "bedrock",
			tt.region, at); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
			if got, want := got.Header.Get(name), want.Header.Get(name); got != want {
				t.Errorf("%s, %s: %s is %q, want %q", tt.key, tt.host, name, got, want)
			}
		}
		if !strings.Contains(got.Header.Get("Authorization"), "/"+tt.region+"/bedrock/aws4_request") {
			t.Errorf("%s: %s", tt.host, got.Header.Get("Authorization"))
		}
	}
}

// A key without a colon is a bearer token.
func TestBearerToken(t *testing.T) {
	if bedrockSigner("bedrock-api-key-YmVkcm9jaw==") != nil {
		t.Error("a bearer token signs")
	}
}

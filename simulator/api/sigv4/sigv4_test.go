package sigv4

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// signed returns a request that the AWS SDK has signed.
func signed(t *testing.T, target, body string, at time.Time) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	digest := sha256.Sum256([]byte(body))
	err := v4.NewSigner().SignHTTP(context.Background(), aws.Credentials{AccessKeyID: "AKID", SecretAccessKey: "secret",
		SessionToken: "session"}, r, hex.EncodeToString(digest[:]), "bedrock", "eu-central-1", at)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What the AWS SDK signs is accepted, and any change of it is refused.
func TestSignature(t *testing.T) {
	const body = `{"messages":[]}`
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, target := range []string{
		"http://bedrock.test/model/m/converse-stream",
		"http://bedrock.test:8000/model/anthropic.claude-3:0/converse-stream?b=2&a=1+1&a=%2F",
		"http://bedrock.test/model/arn%3Aaws%3Abedrock%3Aeu%3A1%3Ainference-profile%2Fx/converse",
	} {
		if err := Check(signed(t, target, body, now), []byte(body), "secret", now.Add(4*time.Minute)); err != nil {
			t.Errorf("%s: %v", target, err)
		}
		for name, c := range map[string]struct {
			change func(r *http.Request)
			body   string
			secret string
			after  time.Duration
			says   string
		}{
			"another secret": {func(*http.Request) {}, body, "other", 0, "does not match"},
			"another body":   {func(*http.Request) {}, "{}", "secret", 0, "does not match"},
			"another path":   {func(r *http.Request) { r.URL.Path, r.URL.RawPath = "/model/x/converse", "" }, body, "secret", 0, "does not match"},
			"another query":  {func(r *http.Request) { r.URL.RawQuery = "c=3" }, body, "secret", 0, "does not match"},
			"another host":   {func(r *http.Request) { r.Host = "other.test" }, body, "secret", 0, "does not match"},
			"another token": {func(r *http.Request) { r.Header.Set("X-Amz-Security-Token", "x") }, body, "secret", 0,
				"does not match"},
			"another digest": {func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "x") }, body, "secret", 0,
				"x-amz-content-sha256"},
			"too late":        {func(*http.Request) {}, body, "secret", 6 * time.Minute, "expired"},
			"no time":         {func(r *http.Request) { r.Header.Del("X-Amz-Date") }, body, "secret", 0, "x-amz-date"},
			"another service": {func(r *http.Request) { replace(r, "/bedrock/", "/s3/") }, body, "secret", 0, "scoped"},
			"another day":     {func(r *http.Request) { replace(r, "AKID/20260301", "AKID/20260302") }, body, "secret", 0, "scoped"},
			"unsigned host":   {func(r *http.Request) { replace(r, ";host", "") }, body, "secret", 0, "lacks"},
			"no signature":    {func(r *http.Request) { replace(r, "Signature=", "S=") }, body, "secret", 0, "lacks"},
		} {
			r := signed(t, target, body, now)
			c.change(r)
			err := Check(r, []byte(c.body), c.secret, now.Add(c.after))
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %s: %v", target, name, err)
			}
		}
	}
}

func replace(r *http.Request, old, by string) {
	r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, by, 1))
}

// Package sigv4 checks that requests are signed by AWS's Signature Version 4.
package sigv4

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The words of AWS's Signature Version 4.
const (
	Algorithm         = "AWS4-HMAC-SHA256"
	signatureTime     = "20060102T150405Z"
	signatureValidity = 5 * time.Minute // before and after its time
)

// signature is what the Authorization header says.
type signature struct {
	scope   string   // date, region, service and "aws4_request", with slashes between
	headers []string // names of the signed headers, lower case, sorted
	mac     string   // in hexadecimal
}

// Check returns an error if the request is not signed with the secret for Bedrock at about this time
// (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html).
func Check(r *http.Request, body []byte, secret string, now time.Time) error {
	s, err := parseSignature(r.Header.Get("Authorization"))
	if err != nil {
		return err
	}
	stamp := r.Header.Get("X-Amz-Date")
	at, err := time.Parse(signatureTime, stamp)
	scope := strings.Split(s.scope, "/")
	switch {
	case err != nil:
		return fmt.Errorf("x-amz-date is %q: give a time as in %s", stamp, signatureTime)
	case len(scope) != 4 || scope[0] != stamp[:8] || scope[2] != "bedrock" || scope[3] != "aws4_request":
		return fmt.Errorf("credential should be scoped to %s/REGION/bedrock/aws4_request, but it is scoped to %q",
			stamp[:8], s.scope)
	case now.Sub(at).Abs() > signatureValidity:
		return fmt.Errorf("signature expired: %s is not within 5 minutes of %s", stamp,
			now.UTC().Format(signatureTime))
	}
	canonical, err := canonicalRequest(r, body, s.headers)
	if err != nil {
		return err
	}
	key := []byte("AWS4" + secret)
	for _, part := range scope {
		key = keyed(key, part)
	}
	digest := sha256.Sum256([]byte(canonical))
	mac := keyed(key, Algorithm+"\n"+stamp+"\n"+s.scope+"\n"+hex.EncodeToString(digest[:]))
	if !hmac.Equal([]byte(hex.EncodeToString(mac)), []byte(s.mac)) {
		return errors.New("the request signature we calculated does not match the signature you provided: " +
			"check the secret and the signing method")
	}
	return nil
}

func keyed(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// parseSignature reads an Authorization header of this algorithm.
func parseSignature(header string) (signature, error) {
	fields := map[string]string{}
	for field := range strings.SplitSeq(strings.TrimPrefix(header, Algorithm), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		fields[name] = value
	}
	_, scope, ok := strings.Cut(fields["Credential"], "/")
	s := signature{scope: scope, headers: strings.Split(fields["SignedHeaders"], ";"), mac: fields["Signature"]}
	if !ok || s.mac == "" || !slices.Contains(s.headers, "host") || !slices.Contains(s.headers, "x-amz-date") {
		return s, errors.New("authorization lacks Credential, SignedHeaders with host and x-amz-date, or Signature")
	}
	return s, nil
}

// canonicalRequest returns the text that the signature covers.
func canonicalRequest(r *http.Request, body []byte, headers []string) (string, error) {
	digest := sha256.Sum256(body)
	payload := hex.EncodeToString(digest[:])
	if given := r.Header.Get("X-Amz-Content-Sha256"); given != "" && given != payload {
		return "", fmt.Errorf("x-amz-content-sha256 is %q, and the body has %s", given, payload)
	}
	lines := []string{r.Method, escaped(r.URL.EscapedPath(), "/"), canonicalQuery(r.URL.Query())}
	for _, name := range headers {
		lines = append(lines, name+":"+headerValue(r, name))
	}
	lines = append(lines, "", strings.Join(headers, ";"), payload)
	return strings.Join(lines, "\n"), nil
}

// headerValue returns a header's values as they are signed. net/http keeps some of them apart from the others.
func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	var values []string
	for _, v := range r.Header.Values(name) {
		values = append(values, strings.Join(strings.Fields(v), " "))
	}
	return strings.Join(values, ",")
}

func canonicalQuery(query url.Values) string {
	var pairs []string
	for name, values := range query {
		for _, v := range values {
			pairs = append(pairs, escaped(name, "")+"="+escaped(v, ""))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// escaped escapes every byte of s but letters, digits, "-._~" and those kept. A path has been escaped once before.
func escaped(s, kept string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9',
			strings.IndexByte("-._~"+kept, c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}

package certs

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"

	"github.com/spate-load/spate/internal/files"
)

// Invitation is what a person pastes to let a program join a cluster.
type Invitation struct {
	// Address is the coordinator's.
	Address string
	// Token proves to the coordinator that its owner invites the program; or it says where the token is: env:NAME or
	// file:PATH.
	Token string
	// Fingerprint is that of the authority that the coordinator must be of.
	Fingerprint string
}

// IsInvitation reports whether a text is meant as an invitation.
func IsInvitation(text string) bool { return strings.HasPrefix(text, scheme+"://") }

var invitation = regexp.MustCompile(`^spate://([^/?#@\s]+:[0-9]+)\?token=([^&\s]+)&ca=sha256:([0-9a-f]{64})$`)

// ParseInvitation reads an invitation. Its error does not have the token.
func ParseInvitation(text string) (Invitation, error) {
	part := invitation.FindStringSubmatch(strings.TrimSpace(text))
	if part == nil {
		return Invitation{}, errors.New("the invitation is cut or mistyped: want 'spate://HOST:PORT?token=TOKEN&ca=sha256:" +
			"FINGERPRINT', in single quotes, as the coordinator prints it")
	}
	return Invitation{Address: part[1], Token: part[2], Fingerprint: part[3]}, nil
}

// String returns the invitation with its token.
func (i Invitation) String() string {
	return fmt.Sprintf("%s://%s?token=%s&ca=sha256:%s", scheme, i.Address, i.Token, i.Fingerprint)
}

// InvitationValidity is how long invitations are valid by default.
const InvitationValidity = 24 * time.Hour

// Invite returns an invitation to programs of a role, which any number of them can use until it ends. With a name it is
// for the program of this name alone. It fails if the authority is not of a coordinator of its own.
func (a *Authority) Invite(role Role, name string, valid time.Duration, now time.Time) (Invitation, error) {
	address, err := files.ReadFile(a.address(), maxPEM)
	if err != nil {
		return Invitation{}, fmt.Errorf("%s is not of a coordinator that was started beyond loopback without --tls-ca: %w",
			a.dir, err)
	}
	if name != "" {
		err = checkName(name)
	}
	token := a.signed(fmt.Sprintf("%s.%d.%d.%s", role, now.UnixNano(), now.Add(valid).UnixNano(), name))
	return Invitation{string(address), token, Fingerprint(a.Certificate())}, err
}

// signed returns a text with a code behind it that only the authority can make. A token is, with dots between, the
// role, when it was made and when it ends in ns since 1970, the name that it is for, and the code.
func (a *Authority) signed(text string) string {
	m := hmac.New(sha256.New, a.secret)
	m.Write([]byte(text))
	return text + "." + base64.RawURLEncoding.EncodeToString(m.Sum(nil)[:16])
}

// read returns whom a token of the authority is for, without a name if it is for any, and when it was made. The error
// is the fault of who has the token.
func (a *Authority) read(token string, now time.Time) (id Identity, made time.Time, err error) {
	text := token[:max(strings.LastIndexByte(token, '.'), 0)]
	if !hmac.Equal([]byte(token), []byte(a.signed(text))) {
		return id, made, refused("the invitation's token is cut, damaged or of another cluster: copy the whole line again")
	}
	part := strings.SplitN(text, ".", 4)
	from, err1 := strconv.ParseInt(part[1], 10, 64)
	to, err2 := strconv.ParseInt(part[2], 10, 64)
	id, made = Identity{Role(part[0]), part[3]}, time.Unix(0, from)
	if end := time.Unix(0, to); !now.Before(end) {
		return id, made, refused("the invitation ended at %s: ask the coordinator's owner for a new one (`spate certs invite %s`)",
			end.UTC().Format(time.DateTime+" MST"), id.Role)
	}
	return id, made, errors.Join(err1, err2)
}

// Dial returns the calling side of the connection by which a program joins: it has no certificate yet, and the peer
// must be a coordinator of the invitation's authority.
func (i Invitation) Dial() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // The authority is known by its fingerprint, see below.
		VerifyConnection: func(s tls.ConnectionState) error {
			root := s.PeerCertificates[len(s.PeerCertificates)-1]
			if own := Fingerprint(root.Raw); own != i.Fingerprint {
				return fmt.Errorf("its authority is sha256:%s, not that of the invitation: its owner made a new one, or somebody "+
					"stands between: ask the owner for a new invitation", own)
			}
			pool := x509.NewCertPool()
			pool.AddCert(root)
			return verifyCoordinator(pool, s)
		},
	})
}

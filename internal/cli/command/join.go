package command

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Member is a program that joins a cluster by an invitation. It keeps what it gets in a directory of its own, so that
// it needs the invitation only once.
type Member struct {
	certs.Files
	// Address is the coordinator's.
	Address string
	// Dir is the directory.
	Dir string

	invitation certs.Invitation
	role       certs.Role
}

// NewMember returns the member that an invitation makes of a program. Its directory is below state, or in the user's
// configuration folder if that is empty, and has the name own.
func NewMember(text string, role certs.Role, state, own string) (*Member, error) {
	i, err := certs.ParseInvitation(text)
	if err != nil {
		return nil, err
	}
	if i.Token, err = Secret(i.Token); err != nil {
		return nil, fmt.Errorf("the invitation's token: %w", err)
	}
	if to, _, _ := strings.Cut(i.Token, "."); to != string(role) && slices.Contains(certs.Roles, certs.Role(to)) {
		return nil, fmt.Errorf("the invitation is for the role %s: agents take one by `spate agent --join`, people by `spate login`", to)
	}
	user, err := UserFile()
	if state == "" && err != nil {
		return nil, fmt.Errorf("there is no folder to keep a certificate in: %w", err)
	}
	dir, err := filepath.Abs(filepath.Join(cmp.Or(state, filepath.Dir(user)), "joined-"+i.Fingerprint[:16], own))
	return &Member{Files: certs.JoinedFiles(dir), Address: i.Address, Dir: dir, invitation: i, role: role}, err
}

// joinTimeout is how long a coordinator may take to issue a certificate.
const joinTimeout = 10 * time.Second

// Join gets a certificate of a name by the invitation. Without a name it renews the certificate by itself.
func (m *Member) Join(ctx context.Context, name string) error {
	creds, token := m.invitation.Dial(), m.invitation.Token
	var err error
	if name == "" {
		token = ""
		if creds, err = m.Dial(m.role); err != nil {
			return err
		}
	}
	conn, err := grpc.NewClient("passthrough:///"+m.Address, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	return m.Files.Join(func(request []byte) (cert, authority []byte, err error) {
		a, err := spatev1.NewEnrolmentServiceClient(conn).Enrol(ctx,
			&spatev1.EnrolRequest{Token: token, Name: name, SigningRequest: request})
		if err == nil {
			err = files.ReplaceSecret(m.gossip(), []byte(a.GetGossip()+"\n"+a.GetGossipKeys()))
		}
		return a.GetCertificate(), a.GetAuthority(), err
	})
}

func (m *Member) gossip() string { return filepath.Join(m.Dir, "gossip") }

// Gossip returns where the coordinator's gossip is reached, and its keys. It fails if agents cannot reach it.
func (m *Member) Gossip() (address, keys string, err error) {
	text, err := files.ReadFile(m.gossip(), maxSecret)
	address, keys, _ = strings.Cut(string(text), "\n")
	if err == nil && address == "" {
		err = fmt.Errorf("--gossip-listen: gossip of the coordinator at %s is only on its machine: give it --gossip-listen, "+
			"too, or leave it out here", m.Address)
	}
	return address, keys, err
}

// JoinOnce joins by a name, unless the program has joined before, and returns the name in its certificate. It fails if
// the coordinator refuses the program, or does not answer one that has no certificate.
func (m *Member) JoinOnce(ctx context.Context, name string) (string, error) {
	id, _, err := m.Check(time.Now())
	var refused error
	if err == nil && id.Role == m.role {
		if refused = m.Join(ctx, ""); status.Code(refused) != codes.PermissionDenied {
			return id.Name, nil
		}
	}
	if err := m.Join(ctx, name); err != nil {
		return "", m.Explained(cmp.Or(refused, err))
	}
	id, _, err = m.Check(time.Now())
	return id.Name, err
}

// Explained returns an error of Join in words for people.
func (m *Member) Explained(err error) error {
	if _, is := status.FromError(err); !is {
		return err
	}
	return fmt.Errorf("the coordinator at %s: %s", m.Address, reason.Of(err))
}

// KeepRenewed renews the certificate each time that a third of its time is left, until ctx ends. It looks each hour, as
// a machine may have slept.
func (m *Member) KeepRenewed(ctx context.Context, log *slog.Logger) {
	for wait := time.Duration(0); clock.Sleep(ctx, wait); {
		if wait = min(time.Until(m.RenewAt()), time.Hour); wait > 0 {
			continue
		}
		if err := m.Join(ctx, ""); err != nil {
			log.Warn("the certificate is not renewed; retrying", "error", m.Explained(err))
			wait = time.Hour
			continue
		}
		log.Info("the certificate is renewed")
		wait = time.Second // also if the clocks are so far apart that it is time to renew the new one
	}
}

// RenewSoon renews the certificate of a person who has logged in to the coordinator at an address, if a third of its
// time is left. If that fails, the old one is used.
func (t *TLS) RenewSoon(address string) {
	if t.Joined() && time.Now().After(t.RenewAt()) {
		m := &Member{Files: t.Files, Address: address, Dir: filepath.Dir(t.Cert), role: certs.Client}
		_ = m.Join(context.Background(), "") // the next command tries again, for days
	}
}

// DropLogin makes a daemon ignore the certificate of a person who has logged in: it comes from the configuration file.
func (t *TLS) DropLogin() {
	if id, _, _ := t.Files.Check(time.Now()); t.Joined() && id.Role == certs.Client {
		t.Files = certs.Files{}
	}
}

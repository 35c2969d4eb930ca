package pages

import (
	"io"
	"time"

	"github.com/spate-load/spate/coordinator/access"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch/show"
)

// Audit writes the page of the audit log: the entries that were asked for.
func Audit(w io.Writer, entries []*spatev1.AuditEntry, asked *spatev1.ReadAuditLogRequest) error {
	selected := asked.GetBy() != "" || asked.GetAbout() != "" || len(asked.GetActions()) > 0 ||
		asked.GetSince() != nil || asked.GetUntil() != nil
	return write(w, "audit.html.tmpl", map[string]any{
		"Title": "Spate: who did what", "Events": "", "Table": show.Audit(entries, time.UTC), "Asked": asked,
		"Actions": access.Actions, "Selected": selected, "Frame": Frame{MayOperate: true, History: true},
	})
}

package content

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Each kind of content is a trace, a file of prompts, or neither, and those with a path in the plan have it here.
func TestEveryContent(t *testing.T) {
	fields := (&spatev1.Workload{}).ProtoReflect().Descriptor().Oneofs().ByName("content").Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		w := &spatev1.Workload{}
		content := w.ProtoReflect().Mutable(field).Message()
		path := content.Descriptor().Fields().ByName("path")
		want := ""
		if path != nil {
			want = "file"
			content.Set(path, protoreflect.ValueOfString(want))
		}
		number, got := Of(w)
		at, place := Path(w)
		if number != uint32(field.Number()) || !proto.Equal(got, content.Interface()) || at != want {
			t.Errorf("%s: field %d, %v, path %q", field.Name(), number, got, at)
		}
		if path != nil && place != string(field.Name())+".path" {
			t.Errorf("%s: the path is at %s", field.Name(), place)
		}
		if (Trace(w) != nil) != (field.Message().Name() == "TraceContent") ||
			(File(w) != nil) != (field.Message().Name() == "FileContent") {
			t.Errorf("%s: trace %v, file %v", field.Name(), Trace(w), File(w))
		}
		if _, sessions := Play(w); sessions != (field.Name() == "sessions") {
			t.Errorf("%s: plays sessions: %v", field.Name(), sessions)
		}
	}
	if number, content := Of(&spatev1.Workload{}); number != 0 || content != nil {
		t.Errorf("no content is %d, %v", number, content)
	}
	w := &spatev1.Workload{Content: &spatev1.Workload_Jsonl{Jsonl: &spatev1.FileContent{
		Sessions: &spatev1.SessionPlay{History: "planned"}}}}
	if play, sessions := Play(w); !sessions || play.GetHistory() != "planned" {
		t.Errorf("sessions of a file: %v, %v", play, sessions)
	}
}

package dataset

import spatev1 "github.com/spate-load/spate/proto/spate/v1"

func formOf(w *spatev1.Workload) uint32 { return 0 }

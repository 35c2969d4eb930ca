package plans

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// stageSeed returns a pure hash of what a stage's requests may depend on. The target and the stage's place are left out
// on purpose: two targets are sent the same requests. The text at the front separates it from other uses of the same
// hash.
func stageSeed(planSeed uint64, workload, loadKey string) uint64 {
	buffer := []byte("spate stage seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, planSeed)
	buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(workload)))
	buffer = append(buffer, workload...)
	return hashed(append(buffer, loadKey...))
}

// ProbeSeed returns the seed of a stage that a sweep or a search makes from its template: a pure hash of the template's
// seed, the stage's load and its number. The number of the series is left out on purpose, like the target in a stage's
// seed: two targets that are probed at the same loads are sent the same requests.
func ProbeSeed(template *spatev1.Stage, load *spatev1.LoadPoint, probe *spatev1.Probe) uint64 {
	buffer := []byte("spate probe seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, template.GetSeed())
	buffer = binary.BigEndian.AppendUint32(buffer, probe.GetNumber())
	return hashed(append(buffer, loadpoint.Key(load)...))
}

func hashed(buffer []byte) uint64 {
	sum := sha256.Sum256(buffer)
	return binary.BigEndian.Uint64(sum[:])
}

package mixtures

import (
	"os"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

func TestMain(m *testing.M) { os.Exit(programs.Main(m, 4)) }

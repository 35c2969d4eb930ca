package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spate-load/spate/cmd/internal/script"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"spate-agent": main}) }

func TestScripts(t *testing.T) { script.Run(t) }

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spate-load/spate/cmd/internal/script"
)

func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"spate-coordinator": main}) }

func TestScripts(t *testing.T) { script.Run(t) }

// Crosscheck checks that the programs compile for other systems, without compiling them: `go run ./internal/crosscheck
// darwin/arm64 windows/amd64`. It checks the types of Spate's own packages, and of the declarations of what they import.
// That takes seconds; builds from nothing take minutes. Releases are built for all systems (make check-release).
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	for _, system := range os.Args[1:] {
		if err := check(system); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", system, err)
			os.Exit(1)
		}
	}
}

// check returns an error if the programs do not compile for a system (GOOS/GOARCH), after it has printed why.
func check(system string) error {
	goos, arch, _ := strings.Cut(system, "/")
	config := packages.Config{
		Mode: packages.NeedName | packages.NeedModule | packages.NeedImports | packages.NeedDeps,
		Env:  append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0"),
	}
	programs, err := packages.Load(&config, "./cmd/...")
	if err != nil {
		return err
	}
	// Bodies of functions are checked only in packages that are asked for by name.
	var own []string
	packages.Visit(programs, nil, func(p *packages.Package) {
		if p.Module != nil && p.Module.Main {
			own = append(own, p.PkgPath)
		}
	})
	config.Mode = packages.LoadAllSyntax
	checked, err := packages.Load(&config, own...)
	if err != nil {
		return err
	}
	if n := packages.PrintErrors(checked); n > 0 {
		return fmt.Errorf("%d errors", n)
	}
	fmt.Printf("%s: %d packages compile.\n", system, len(own))
	return nil
}

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

// documents returns the texts of all documents by path.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../deployments/*.md",
		"../deployments/*/*.md", "../bench/*.md", "../bench/*/*.md"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[path] = string(text)
		}
	}
	if len(all) < 10 {
		t.Fatalf("%d documents", len(all))
	}
	return all
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noWord  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	fence   = regexp.MustCompile("(?s)\n```[a-z]*\n(.*?)\n```")
	inline  = regexp.MustCompile("`([^`\n]+)`")
	command = regexp.MustCompile(`(?:^|[\s&;|(])(?:bin/)?(spate(?:-coordinator|-agent)?) ([^|#&>` + "`" + `]*)`)
	flag    = regexp.MustCompile(`(?:^|\s)--([a-z][a-z-]*)`)
)

// anchors returns the anchors of a document's headings, as GitHub makes them.
func anchors(text string) (all []string) {
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(noWord.ReplaceAllString(strings.ToLower(match[1]), ""), " ", "-"))
	}
	return all
}

// Every link within the repository leads somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for path, text := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			to, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(to, "://") {
				continue
			}
			goal := path
			if to != "" {
				goal = filepath.Join(filepath.Dir(path), to)
			}
			there, err := os.ReadFile(goal)
			if _, err2 := os.Stat(goal); err2 != nil {
				t.Errorf("%s: nothing is at %s", path, match[1])
			} else if anchor != "" && (err != nil || !slices.Contains(anchors(string(there)), anchor)) {
				t.Errorf("%s: %s has no heading %q", path, to, anchor)
			}
		}
	}
}

// Every test that a document names exists, or is the start of the name of one.
func TestDocumentsNameTheTestsThereAre(t *testing.T) {
	t.Parallel()
	said, err := exec.Command("grep", "-rhoE", "--include=*_test.go", `^func (Test|Fuzz)[A-Za-z0-9_]+`, "..").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range documents(t) {
		for _, name := range regexp.MustCompile(`\b(Test|Fuzz)[A-Z]\w+`).FindAllString(text, -1) {
			if !strings.Contains(string(said), "func "+name) {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
	}
}

// Every page of docs/ has its place in the site's navigation.
func TestPagesAreInTheSite(t *testing.T) {
	t.Parallel()
	site, err := os.ReadFile("../mkdocs.yml")
	if err != nil {
		t.Fatal(err)
	}
	for path := range documents(t) {
		if page, ok := strings.CutPrefix(path, "../docs/"); ok && !strings.Contains(string(site), page) {
			t.Errorf("%s is not in mkdocs.yml", page)
		}
	}
}

// Every flag of a command in a document exists.
func TestDocumentsNameTheFlagsThereAre(t *testing.T) {
	t.Parallel()
	checked := 0
	for path, text := range documents(t) {
		for _, line := range commandLines(text) {
			if strings.HasPrefix(line, "helm ") {
				continue
			}
			line = regexp.MustCompile(`'[^']*'`).ReplaceAllString(line, "") // command lines of others
			for _, match := range command.FindAllStringSubmatch(line, -1) {
				known := flagsOf(t, match[1], strings.Fields(match[2]))
				for _, f := range flag.FindAllStringSubmatch(match[2], -1) {
					checked++
					if !slices.Contains(known, f[1]) {
						t.Errorf("%s: %s %s: there is no --%s", path, match[1], match[2], f[1])
					}
				}
			}
		}
	}
	if checked < 50 {
		t.Errorf("%d flags are checked", checked)
	}
}

// commandLines returns the lines of a document's code blocks, with continued lines joined, and its inline code.
func commandLines(text string) (lines []string) {
	for _, match := range fence.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(strings.ReplaceAll(match[1], "\\\n", " "), "\n")...)
	}
	for _, match := range inline.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		lines = append(lines, match[1])
	}
	return lines
}

// helps caches the help texts of programs and their commands.
var helps = map[string][]string{}

// flagsOf lists the flags of a program's command. The first words name the command.
func flagsOf(t *testing.T, program string, words []string) []string {
	t.Helper()
	paths := map[string]string{"spate": programs.Built.Spate, "spate-coordinator": programs.Built.Coordinator,
		"spate-agent": programs.Built.Agent}
	var command []string
	for _, word := range words {
		if program != "spate" || len(command) == 2 || !regexp.MustCompile(`^[a-z]+$`).MatchString(word) {
			break
		}
		command = append(command, word)
	}
	if len(command) == 2 && !slices.Contains([]string{"plan", "certs", "runs"}, command[0]) {
		command = command[:1]
	}
	name := strings.Join(append([]string{program}, command...), " ")
	if helps[name] == nil {
		helps[name] = []string{"help", "version"}
		said, err := exec.Command(paths[program], append(command, "--help-all")...).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, match := range regexp.MustCompile(`(?m)^\s+(?:-\w, )?--([a-z][a-z-]*)`).FindAllStringSubmatch(string(said), -1) {
			helps[name] = append(helps[name], match[1])
		}
	}
	return helps[name]
}

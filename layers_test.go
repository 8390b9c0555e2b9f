package hearth_test

import (
	"os"
	"strings"
	"testing"
)

const module = "myip.co.kr/hearth"

// mayImport is the import table: which packages of this module a package's own files (not its tests) may use.
// The root may be used by everybody and stands in no row. A package without a row fails.
var mayImport = map[string][]string{
	"cmd/hearth": {"internal/app", "internal/market", "internal/engine", "internal/config"},
	"internal/app": {"internal/config", "internal/server", "internal/relay", "internal/ui", "internal/upstream",
		"internal/chain", "internal/routing", "internal/slot", "internal/node", "internal/driver", "internal/health",
		"internal/dialect", "internal/sse", "internal/estimate", "internal/suggest", "internal/meter", "internal/account", "internal/fx", "internal/content",
		"internal/media", "internal/journal", "internal/ledger", "internal/store", "internal/cluster", "internal/toolcheck"},
	"docs": {},
	"internal/server": {"docs", "internal/relay", "internal/ui", "internal/account", "internal/store", "internal/chain",
		"internal/slot", "internal/routing", "internal/health"},
	"internal/relay": {"internal/chain", "internal/upstream", "internal/ledger", "internal/estimate", "internal/dialect",
		"internal/meter", "internal/routing", "internal/health", "internal/slot", "internal/media", "internal/content", "internal/account", "internal/toolcheck"},
	"internal/upstream":  {"internal/dialect", "internal/meter", "internal/sse"},
	"internal/ledger":    {"internal/account", "internal/journal", "internal/store", "internal/meter"},
	"internal/account":   {"internal/store"},
	"internal/content":   {"internal/store"},
	"internal/market":    {"internal/chain", "internal/routing", "internal/health", "internal/slot"},
	"internal/node":      {"internal/slot", "internal/sse"},
	"internal/driver":    {"internal/slot"},
	"internal/dialect":   {"internal/sse", "internal/suggest"},
	"internal/config":    {"internal/suggest"},
	"internal/chain":     {"internal/suggest"},
	"internal/suggest":   {},
	"internal/toolcheck": {},
	"internal/sse":       {},
	"internal/estimate":  {},
	"internal/routing":   {},
	"internal/slot":      {},
	"internal/health":    {},
	"internal/media":     {},
	"internal/meter":     {},
	"internal/fx":        {},
	"internal/journal":   {},
	"internal/store":     {},
	"internal/cluster":   {},
	"internal/ui":        {},
	"internal/engine":    {},
	"test/e2e":           {}, // a package comment; its tests start the built program
	"test/faults":        {}, // likewise
	"test/crash":         {}, // likewise
}

// homes says which packages may use a library. "*" is everybody. A library without a row fails, and so does a
// row that no file needs.
var homes = map[string][]string{
	"github.com/shopspring/decimal":      {"*"},
	"github.com/go-json-experiment/json": {"*"},
	"github.com/goccy/go-yaml":           {"internal/config"},
	"github.com/alecthomas/kong":         {"cmd/hearth"},
	"golang.org/x/term":                  {"cmd/hearth"},
	"github.com/agnivade/levenshtein":    {"internal/suggest"},
	"modernc.org/sqlite":                 {"internal/store"},
	"github.com/pressly/goose/v3":        {"internal/store"},
	"github.com/oklog/ulid/v2":           {"internal/relay", "internal/account"},
	"github.com/schollz/progressbar/v3":  {"cmd/hearth"},

	"github.com/prometheus/client_golang":      {"internal/server"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"internal/toolcheck"},
}

// testLibraries may be used by tests everywhere and by nothing else.
var testLibraries = []string{
	"github.com/google/go-cmp",
	"github.com/rogpeppe/go-internal",
	"go.uber.org/goleak",
	"pgregory.net/rapid",
}

// stdlibHomes narrows parts of the standard library the same way; an empty list is nobody, tests included.
var stdlibHomes = map[string][]string{
	"encoding/json": {}, // takes the last duplicate and ignores case: github.com/go-json-experiment/json does neither
	"database/sql":  {"internal/store"},
	"C":             {}, // a clean clone builds without a C compiler
}

// The allow-lists. Each line gives the reason; a line that is no longer needed fails.
var (
	longFiles     = map[string]string{} // path → why it may have more than maxFileLines
	longFunctions = map[string]string{} // "path:Name" or "path:Type.Name" → why it may have more than maxFuncLines
	untested      = map[string]string{} // directory → why the package has no test of its own
)

const (
	maxFileLines = 400
	maxFuncLines = 60
)

// rule is one property of the source tree.
type rule struct {
	name  string
	check func(*tree) []finding
	allow map[string]string // finding key → reason
}

func rules() []rule {
	return []rule{
		{"imports follow the table", checkImports(mayImport), nil},
		{"the root knows only the standard library and decimal", checkRoot, nil},
		{"libraries stay in their homes", checkLibraries(homes, testLibraries, stdlibHomes), nil},
		{"files are short", checkFileSize, longFiles},
		{"functions are short", checkFuncSize, longFunctions},
		{"tests do not sleep", checkSleep, nil},
		{"package names mean something", checkPackageNames, nil},
		{"names have no Get prefix", checkGetPrefix, nil},
		{"packages say what they are", checkPackageDoc, nil},
		{"packages are tested", checkPackageTest, untested},
	}
}

func TestLayers(t *testing.T) {
	src, err := scan(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if src.pkgs["."] == nil || len(src.files) < 8 {
		t.Fatalf("scan found %d files: this is not the source tree", len(src.files))
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range judge(r, src) {
				t.Error(f)
			}
		})
	}
	t.Run("the import table has no cycle", func(t *testing.T) {
		if c := cycle(mayImport); c != nil {
			t.Error(strings.Join(c, " → "))
		}
	})
}

package server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"myip.co.kr/hearth"
)

// Flags are the endpoints whose answers are worse than they should be, as the operator or a benchmark says.
type Flags interface {
	Why(*hearth.Endpoint) string // "" = it is not flagged
	List() []Flag
	// Set flags an endpoint, by its id, or with an empty reason takes the operator's flag back.
	Set(endpoint, reason string) error
	// Import takes a benchmark in, or with dry says what it would do. The error names the lines that are wrong.
	Import(body []byte, dry bool) (Imported, error)
}

// Flag is one endpoint whose quality is in doubt.
type Flag struct {
	Endpoint string     `json:"endpoint"`
	Model    string     `json:"model"`
	Provider string     `json:"provider"`
	By       string     `json:"by"` // configuration, operator, benchmark, or gateway: broken tool calls
	Reason   string     `json:"reason"`
	Since    *time.Time `json:"since"` // null = not known
}

// Imported is what a benchmark came to.
type Imported struct {
	Flagged []string `json:"flagged"` // ids of endpoints that are flagged by it
	Cleared []string `json:"cleared"` // that an earlier one had flagged
	Fine    []string `json:"fine"`    // the others that it has
	Others  int      `json:"others"`  // rows of models and providers that are not there
}

// maxBenchmark bounds a benchmark, in bytes.
const maxBenchmark = 8 << 20

func (s *Server) qualityRoutes(base string) {
	s.route("GET", base+"/quality", s.admin(s.listFlags))
	s.route("PUT", base+"/quality", s.admin(s.setFlag))
	s.route("POST", base+"/quality/benchmark", s.admin(s.benchmark))
}

// why is why the quality of an endpoint is in doubt, "" = it is not.
func (s *Server) why(e *hearth.Endpoint) string {
	if s.Flags == nil {
		return ""
	}
	return s.Flags.Why(e)
}

func (s *Server) listFlags(w http.ResponseWriter, _ *http.Request) error {
	if s.Flags == nil {
		return errNoFlags()
	}
	return s.writeFlags(w)
}

func (s *Server) writeFlags(w http.ResponseWriter) error {
	return writeJSON(w, http.StatusOK, struct {
		Data []Flag `json:"data"`
	}{s.Flags.List()})
}

func errNoFlags() error {
	return hearth.Errorf(hearth.ErrNotFound, "nothing is flagged here: there are no providers")
}

// setFlag sets or clears the operator's flag of one endpoint and shows all that are flagged.
func (s *Server) setFlag(w http.ResponseWriter, r *http.Request) error {
	if s.Flags == nil {
		return errNoFlags()
	}
	b, err := wholeBody(w, r, maxOrder)
	if err != nil {
		return err
	}
	var body struct {
		Endpoint string `json:"endpoint"`
		Flagged  *bool  `json:"flagged"`
		Reason   string `json:"reason"`
	}
	if err := json.Unmarshal(b, &body, json.RejectUnknownMembers(true)); err != nil || body.Flagged == nil || !*body.Flagged && body.Reason != "" {
		return hearth.Errorf(hearth.ErrInvalidRequest, `the body is {"endpoint": "…", "flagged": true, "reason": "…"}, or {"endpoint": "…", "flagged": false}`)
	}
	if *body.Flagged && body.Reason == "" {
		return hearth.Invalid("reason", "reason is empty; say why the endpoint is flagged, such as: it cuts answers short")
	}
	if err := s.Flags.Set(body.Endpoint, body.Reason); err != nil {
		return err
	}
	s.Log.Info("quality flag", "endpoint", body.Endpoint, "flagged", *body.Flagged, "reason", body.Reason)
	return s.writeFlags(w)
}

// benchmark takes scores in; with ?dry=true it says what they would do.
func (s *Server) benchmark(w http.ResponseWriter, r *http.Request) error {
	if s.Flags == nil {
		return errNoFlags()
	}
	b, err := wholeBody(w, r, maxBenchmark)
	if err != nil {
		return err
	}
	dry := r.URL.Query().Get("dry") == "true"
	out, err := s.Flags.Import(b, dry)
	if err != nil {
		return err
	}
	if !dry {
		s.Log.Info("benchmark taken in", "flagged", out.Flagged, "cleared", out.Cleared)
	}
	return writeJSON(w, http.StatusOK, struct {
		Data Imported `json:"data"`
	}{out})
}

// wholeBody reads a body of up to so many bytes.
func wholeBody(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if tooLong := (*http.MaxBytesError)(nil); errors.As(err, &tooLong) {
		return nil, hearth.Errorf(hearth.ErrPayloadTooLarge, "the body may have up to %d bytes", most)
	}
	if err != nil {
		return nil, hearth.Errorf(hearth.ErrInvalidRequest, "the body ended before it was complete")
	}
	return b, nil
}

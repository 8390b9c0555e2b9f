package hearth

import (
	"fmt"
	"net/http"
	"time"
)

// ErrorType is the word a caller sees in error.type. Each maps to one HTTP status and to OpenRouter's words.
type ErrorType string

const (
	ErrInvalidRequest      ErrorType = "invalid_request"
	ErrContextLength       ErrorType = "context_length_exceeded"
	ErrUnsupported         ErrorType = "unsupported"
	ErrUnauthorized        ErrorType = "unauthorized"
	ErrInsufficientCredits ErrorType = "insufficient_credits"
	ErrNotAllowed          ErrorType = "not_allowed"
	ErrModelNotFound       ErrorType = "model_not_found"
	ErrNoEndpoints         ErrorType = "no_endpoints_found"
	ErrNotFound            ErrorType = "not_found"
	ErrNotRecorded         ErrorType = "not_recorded"
	ErrPayloadTooLarge     ErrorType = "payload_too_large"
	ErrRateLimited         ErrorType = "rate_limited"
	ErrProvider            ErrorType = "provider_error"
	ErrModelLoading        ErrorType = "model_loading"
	ErrCoolingDown         ErrorType = "endpoints_cooling_down"
	ErrOverloaded          ErrorType = "overloaded"
	ErrTimeout             ErrorType = "timeout"
	ErrInternal            ErrorType = "internal"
)

// errorWords is the table "our words, OpenRouter's words, and whether a retry helps".
var errorWords = map[ErrorType]struct {
	status       int
	openRouter   string
	availability string
	retry        bool
}{
	ErrInvalidRequest:      {http.StatusBadRequest, "invalid_request", "", false},
	ErrContextLength:       {http.StatusBadRequest, "context_length_exceeded", "constraint_filtered", false},
	ErrUnsupported:         {http.StatusBadRequest, "invalid_request", "constraint_filtered", false},
	ErrUnauthorized:        {http.StatusUnauthorized, "authentication", "", false},
	ErrInsufficientCredits: {http.StatusPaymentRequired, "payment_required", "", false},
	ErrNotAllowed:          {http.StatusForbidden, "permission_denied", "", false},
	ErrModelNotFound:       {http.StatusNotFound, "not_found", "model_not_found", false},
	ErrNoEndpoints:         {http.StatusNotFound, "not_found", "no_endpoints", false},
	ErrNotFound:            {http.StatusNotFound, "not_found", "", false},
	ErrNotRecorded:         {http.StatusNotFound, "not_found", "", false},
	ErrPayloadTooLarge:     {http.StatusRequestEntityTooLarge, "payload_too_large", "", false},
	ErrRateLimited:         {http.StatusTooManyRequests, "rate_limit_exceeded", "capacity_exhausted", true},
	ErrProvider:            {http.StatusBadGateway, "provider_unavailable", "temporarily_unavailable", true},
	ErrModelLoading:        {http.StatusServiceUnavailable, "provider_overloaded", "temporarily_unavailable", true},
	ErrCoolingDown:         {http.StatusServiceUnavailable, "provider_overloaded", "temporarily_unavailable", true},
	ErrOverloaded:          {http.StatusServiceUnavailable, "provider_overloaded", "temporarily_unavailable", true},
	ErrTimeout:             {http.StatusGatewayTimeout, "timeout", "temporarily_unavailable", true},
	ErrInternal:            {http.StatusInternalServerError, "server", "", true},
}

// Status is the HTTP status of the error type; an unknown type is a 500.
func (t ErrorType) Status() int {
	if w, ok := errorWords[t]; ok {
		return w.status
	}
	return http.StatusInternalServerError
}

// OpenRouter is OpenRouter's word for the same thing (metadata.error_type).
func (t ErrorType) OpenRouter() string {
	if w, ok := errorWords[t]; ok {
		return w.openRouter
	}
	return "unmapped"
}

// Availability is OpenRouter's availability.code, "" where it has none.
func (t ErrorType) Availability() string { return errorWords[t].availability }

// Retryable says whether sending the same request again later can help.
func (t ErrorType) Retryable() bool { return errorWords[t].retry }

// Error is an error meant for a caller. Message must be fit for a stranger's eyes: no secrets, no internal
// addresses, no paths. What only the operator may know goes into Err, which is logged and never sent.
type Error struct {
	Type       ErrorType
	Status     int           // HTTP status if it differs from Type's (an upstream's rejection passed on); else 0
	Message    string        // what went wrong and what to do next
	Param      string        // the field at fault, as a path ("messages[2].role"); "" = none
	RetryAfter time.Duration // > 0: sent as Retry-After, whole seconds, rounded up
	SlotStatus SkipReason    // for model_loading: the slot's word
	Provider   string        // display name of the provider at fault, "" = ours
	Raw        string        // the upstream's own message, already cleaned of secrets
	// ProviderCode is the upstream's own word for the error ("rate_limit_exceeded"), cleaned as Raw is; "" = none.
	ProviderCode string
	Attempts     []Attempt // every candidate of a chain that failed as a whole
	Drops        []Drop    // every candidate that was filtered out of an empty chain
	Requested    []string  // the models asked for
	Err          error     // the cause, for the log only
}

// Errorf makes an Error of type t with a formatted message.
func Errorf(t ErrorType, format string, args ...any) *Error {
	return &Error{Type: t, Message: fmt.Sprintf(format, args...)}
}

// Invalid makes the error for a field of the request that cannot be accepted.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Type: ErrInvalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}

// HTTPStatus is the status the error is sent with.
func (e *Error) HTTPStatus() int {
	if e.Status != 0 {
		return e.Status
	}
	return e.Type.Status()
}

func (e *Error) Error() string {
	s := string(e.Type) + ": " + e.Message
	if e.Param != "" {
		s = string(e.Type) + " (" + e.Param + "): " + e.Message
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

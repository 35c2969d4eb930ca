package api

import (
	"fmt"
	"net/http"
)

// Error is an error in the form of OpenAI's API.
type Error struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// invalid returns the error of a request that cannot be served as it is.
func invalid(status int, code, message string) *Error {
	return &Error{status: status, Message: message, Type: "invalid_request_error", Code: code}
}

// BadRequest returns the error of a request that is not valid.
func BadRequest(message string) *Error {
	return invalid(http.StatusBadRequest, "invalid_value", message)
}

func tooLong(prompt, output, limit int) *Error {
	return invalid(http.StatusBadRequest, "context_length_exceeded",
		fmt.Sprintf("This model's maximum context length is %d tokens. "+
			"You requested %d tokens: %d in the prompt and %d in the output.", limit, prompt+output, prompt, output))
}

// BodyTooLarge returns the error of a body of more than limit bytes.
func BodyTooLarge(limit int64) *Error {
	return invalid(http.StatusRequestEntityTooLarge, "body_too_large",
		fmt.Sprintf("the body is longer than %d bytes", limit))
}

func unknownModel(name string) *Error {
	return invalid(http.StatusNotFound, "model_not_found", fmt.Sprintf("The model %q does not exist.", name))
}

func unknownParameter(name string) *Error {
	e := invalid(http.StatusBadRequest, "unknown_parameter", "Unrecognized request argument supplied: "+name)
	e.Param = &name
	return e
}

// UnknownPath returns the error of a path that is not served.
func UnknownPath(method, path string) *Error {
	return invalid(http.StatusNotFound, "unknown_url", fmt.Sprintf("Unknown request: %s %s", method, path))
}

// Unauthorized returns the error of a request without the key.
func Unauthorized() *Error {
	return invalid(http.StatusUnauthorized, "invalid_api_key",
		"Incorrect or missing API key: send it as a bearer token.")
}

// TooManyRequests returns the error of the fault 429.
func TooManyRequests() *Error {
	return &Error{status: http.StatusTooManyRequests, Message: "Rate limit reached (simulated).", Type: "requests",
		Code: "rate_limit_exceeded"}
}

// ServerError returns the error of the fault 500, and of an error in a stream.
func ServerError() *Error {
	return &Error{status: http.StatusInternalServerError, Message: "The server had an error (simulated).",
		Type: "server_error", Code: "internal_error"}
}

// json returns the error object.
func (e *Error) json() []byte {
	return JSON(map[string]*Error{"error": e})
}

// WriteTo sends the error as the whole response, in OpenAI's form.
func (e *Error) WriteTo(w http.ResponseWriter) { WriteProblem(w, e.status, e.json()) }

// WriteProblem sends an error as the whole response. It ignores write errors: the client may have left.
func WriteProblem(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

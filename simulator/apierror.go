package simulator

import (
	"fmt"
	"net/http"
)

// apiError is an error in the form of OpenAI's API.
type apiError struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

func badRequest(message string) *apiError {
	return &apiError{status: http.StatusBadRequest, Message: message, Type: "invalid_request_error",
		Code: "invalid_value"}
}

func tooLong(prompt, output, limit int) *apiError {
	return &apiError{
		status: http.StatusBadRequest,
		Message: fmt.Sprintf("This model's maximum context length is %d tokens. "+
			"You requested %d tokens: %d in the prompt and %d in the output.",
			limit, prompt+output, prompt, output),
		Type: "invalid_request_error",
		Code: "context_length_exceeded",
	}
}

func bodyTooLarge(limit int64) *apiError {
	return &apiError{
		status:  http.StatusRequestEntityTooLarge,
		Message: fmt.Sprintf("the body is longer than %d bytes", limit),
		Type:    "invalid_request_error",
		Code:    "body_too_large",
	}
}

func unknownModel(name string) *apiError {
	return &apiError{
		status:  http.StatusNotFound,
		Message: fmt.Sprintf("The model %q does not exist.", name),
		Type:    "invalid_request_error",
		Code:    "model_not_found",
	}
}

func unknownParameter(name string) *apiError {
	return &apiError{
		status:  http.StatusBadRequest,
		Message: "Unrecognized request argument supplied: " + name,
		Type:    "invalid_request_error",
		Param:   &name,
		Code:    "unknown_parameter",
	}
}

func unknownPath(method, path string) *apiError {
	return &apiError{
		status:  http.StatusNotFound,
		Message: fmt.Sprintf("Unknown request: %s %s", method, path),
		Type:    "invalid_request_error",
		Code:    "unknown_url",
	}
}

func unauthorized() *apiError {
	return &apiError{
		status:  http.StatusUnauthorized,
		Message: "Incorrect or missing API key: send it as a bearer token.",
		Type:    "invalid_request_error",
		Code:    "invalid_api_key",
	}
}

func tooManyRequests() *apiError {
	return &apiError{
		status:  http.StatusTooManyRequests,
		Message: "Rate limit reached (simulated).",
		Type:    "requests",
		Code:    "rate_limit_exceeded",
	}
}

func serverError() *apiError {
	return &apiError{
		status:  http.StatusInternalServerError,
		Message: "The server had an error (simulated).",
		Type:    "server_error",
		Code:    "internal_error",
	}
}

// json returns the error object.
func (e *apiError) json() []byte {
	return jsonOf(map[string]*apiError{"error": e})
}

// writeTo sends the error as the whole response, in OpenAI's form.
func (e *apiError) writeTo(w http.ResponseWriter) { writeProblem(w, e.status, e.json()) }

// writeProblem sends an error as the whole response. It ignores write errors: the client may have left.
func writeProblem(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// Package openwhisk carries endpoints as OpenWhisk actions: a web server with /init and /run, as the interface of actions asks for.
//
// A request is a sequence of two actions, made as a raw web action: `authenticate`, which every sequence begins with, says whose token
// it is and hands everything on; then the action of the endpoint. An action that answers {"error": …} ends its sequence, and the
// controller answers the web request with the status, headers and body in it.
package openwhisk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"towtank/apps/iot/access"
	"towtank/apps/iot/api"
	"towtank/apps/iot/serve"
)

// Authenticate is the name of the action that every sequence begins with.
const Authenticate = "authenticate"

// maxParameters: a body in base64 and what is around it.
const maxParameters = 2 * api.MaxBodyBytes

const endOfLogs = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX"

// parameters are what the controller makes of an HTTP request, and what `authenticate` adds.
type parameters struct {
	Method  string            `json:"__ow_method"`
	Headers map[string]string `json:"__ow_headers"`
	Path    string            `json:"__ow_path"`
	Body    string            `json:"__ow_body"`
	Query   string            `json:"__ow_query,omitempty"`
	Caller  *access.Caller    `json:"iot_caller,omitempty"`
}

// answer is what a web action answers with.
type answer struct {
	StatusCode int               `json:"statusCode"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
}

// action turns parameters into a result, or an answer to end the sequence with.
type action func(ctx context.Context, given parameters) (any, *answer)

// NewHandler returns the web server of the action of a name: an endpoint's, or Authenticate.
func NewHandler(platform *api.Platform, name string) (http.Handler, error) {
	do := authenticate(platform)
	if name != Authenticate {
		endpoint, err := api.Named(name)
		if err != nil {
			return nil, fmt.Errorf("%w, and the action %s", err, Authenticate)
		}
		do = carry(platform, endpoint)
	}
	begun := atomic.Bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /init", func(w http.ResponseWriter, _ *http.Request) {
		if begun.Swap(true) {
			reply(w, http.StatusForbidden, failure("an action is initialized once"))
			return
		}
		reply(w, http.StatusOK, map[string]bool{"ok": true})
	})
	mux.Handle("POST /run", otelhttp.NewHandler(run(do), name))
	mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "ready") })
	return mux, nil
}

// run answers one activation. Activations may overlap: nothing of one is kept for another.
func run(do action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer frameLogs()
		var activation struct {
			Value parameters `json:"value"`
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxParameters))
		if err == nil {
			err = json.Unmarshal(body, &activation)
		}
		if err != nil {
			reply(w, http.StatusBadRequest, failure("the activation cannot be read: "+err.Error()))
			return
		}
		result, ended := do(r.Context(), activation.Value)
		if ended != nil {
			result = failure(ended)
		}
		reply(w, http.StatusOK, result)
	})
}

// authenticate says who the caller is; whatever a caller says of himself is replaced.
func authenticate(platform *api.Platform) action {
	return func(ctx context.Context, given parameters) (any, *answer) {
		given.Caller = nil
		header := headerOf(given.Headers, "authorization")
		if header == "" {
			return given, nil // some endpoints take nobody's token; the others refuse this
		}
		caller, err := platform.Bearer(ctx, header)
		if err != nil {
			return nil, refused(Authenticate, err)
		}
		given.Caller = &caller
		return given, nil
	}
}

func carry(platform *api.Platform, endpoint api.Endpoint) action {
	paths := http.NewServeMux()
	paths.HandleFunc(endpoint.Method+" "+endpoint.Path, func(http.ResponseWriter, *http.Request) {})
	return func(ctx context.Context, given parameters) (any, *answer) {
		input, err := inputOf(paths, endpoint, given)
		if err != nil {
			return nil, refused(endpoint.Name, err)
		}
		output, err := endpoint.Do(platform, ctx, input)
		if err == nil && output.Rest != nil {
			err = serve.Before(ctx, output.Rest)
		}
		var encoded []byte
		if err == nil {
			encoded, err = json.Marshal(output.Body)
		}
		if err != nil {
			return nil, refused(endpoint.Name, err)
		}
		return answerOf(output.Status, encoded), nil
	}
}

// inputOf reads the parameters of a raw web action.
func inputOf(paths *http.ServeMux, endpoint api.Endpoint, given parameters) (api.Input, error) {
	input := api.Input{Path: map[string]string{}}
	if given.Caller != nil {
		input.Caller = *given.Caller
	}
	if err := endpoint.Admit(input.Caller); err != nil {
		return input, err
	}
	request, err := http.NewRequest(strings.ToUpper(given.Method), "/"+strings.TrimPrefix(given.Path, "/"), http.NoBody)
	if err != nil {
		return input, &api.Refusal{Status: http.StatusBadRequest, Message: "the path cannot be read"}
	}
	missed := missed{}
	if paths.ServeHTTP(&missed, request); missed.status != 0 {
		return input, &api.Refusal{Status: missed.status, Message: fmt.Sprintf("%s answers %s %s", endpoint.Name, endpoint.Method, endpoint.Path)}
	}
	for _, name := range endpoint.Placeholders() {
		input.Path[name] = request.PathValue(name)
	}
	if input.Body = bodyOf(given.Body); len(input.Body) > api.MaxBodyBytes {
		return input, api.TooLarge
	}
	return input, nil
}

// missed notes what a mux says of a request that it has no handler for.
type missed struct{ status int }

func (m *missed) Header() http.Header            { return http.Header{} }
func (m *missed) Write(body []byte) (int, error) { return len(body), nil }
func (m *missed) WriteHeader(status int)         { m.status = status }

// bodyOf decodes a body: JSON comes in base64 from a raw web action, from some controllers as it is.
func bodyOf(text string) []byte {
	if trimmed := bytes.TrimSpace([]byte(text)); len(trimmed) > 0 && bytes.ContainsAny(trimmed[:1], `{["`) {
		return []byte(text)
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return []byte(text) // and the endpoint says what is wrong about it
	}
	return decoded
}

func refused(name string, err error) *answer {
	refusal, away := api.AsRefusal(err)
	if away {
		slog.Error("a store did not answer", "action", name, "error", err)
	}
	encoded, _ := json.Marshal(map[string]string{"error": refusal.Message}) // a text: always possible
	return answerOf(refusal.Status, encoded)
}

// answerOf encodes a body as the controller wants JSON: in base64.
func answerOf(status int, body []byte) *answer {
	return &answer{status, map[string]string{"Content-Type": "application/json"}, base64.StdEncoding.EncodeToString(body)}
}

func failure(what any) map[string]any { return map[string]any{"error": what} }

func headerOf(headers map[string]string, name string) string {
	for key, value := range headers {
		if strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

func reply(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		status, encoded = http.StatusBadGateway, []byte(`{"error":"the result cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded)
}

// frameLogs ends an activation's lines on both streams; the invoker waits for that when it collects logs.
func frameLogs() {
	for _, stream := range []*os.File{os.Stdout, os.Stderr} {
		_, _ = fmt.Fprintln(stream, endOfLogs)
	}
}

// Package serve carries endpoints over HTTP: as a microservice of many, or as a function of one.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/trace"

	"towtank/apps/iot/access"
	"towtank/apps/iot/api"
)

var took = promauto.NewHistogramVec(prometheus.HistogramOpts{
	Name: "iot_request_duration_seconds", Help: "Time from a request's headers to its answer's end.",
	Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
}, []string{"endpoint", "status"})

// doRest decides when the rest of a request is done: before its answer, or after.
type doRest func(ctx context.Context, rest *api.Rest) error

// Before finishes the rest before the answer, as a function must; when that fails the request is undone and refused.
func Before(ctx context.Context, rest *api.Rest) error {
	err := rest.Do(ctx)
	if err != nil {
		// The caller may have gone; what he began is taken back all the same.
		if undone := rest.Undo(context.WithoutCancel(ctx)); undone != nil {
			slog.Error("what a refused request did could not be taken back; a core instance completes it when it starts", "error", undone)
		}
	}
	return err
}

// Carrier answers requests of endpoints.
type Carrier struct {
	platform *api.Platform
	rest     doRest
	mux      *http.ServeMux
	ready    func() bool
}

// NewCarrier returns a handler of the endpoints, of health paths and metrics. `ready` says whether requests may come.
func NewCarrier(platform *api.Platform, endpoints []api.Endpoint, rest doRest, ready func() bool) *Carrier {
	c := &Carrier{platform, rest, http.NewServeMux(), ready}
	for _, endpoint := range endpoints {
		c.mux.Handle(endpoint.Method+" "+endpoint.Path, otelhttp.NewHandler(c.handler(endpoint), endpoint.Name))
	}
	c.mux.Handle("GET /metrics", promhttp.Handler())
	c.mux.HandleFunc("GET /health/liveness", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "alive") })
	c.mux.HandleFunc("GET /health/readiness", func(w http.ResponseWriter, _ *http.Request) {
		if c.ready() {
			reply(w, http.StatusOK, "ready")
		} else {
			refuse(w, &api.Refusal{Status: http.StatusServiceUnavailable, Message: "not ready: topics, indices and connectors are not reconciled yet"})
		}
	})
	return c
}

func (c *Carrier) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.mux.ServeHTTP(w, r) }

func (c *Carrier) handler(endpoint api.Endpoint) http.Handler {
	names := endpoint.Placeholders()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		output, err := c.answer(endpoint, names, w, r)
		status := output.Status
		if err != nil {
			refusal, away := api.AsRefusal(err)
			if away && r.Context().Err() == nil {
				slog.Error("a store did not answer", "endpoint", endpoint.Name, "error", err)
				trace.SpanFromContext(r.Context()).RecordError(err)
			}
			status = refusal.Status
			refuse(w, refusal)
		} else {
			reply(w, status, output.Body)
		}
		took.WithLabelValues(endpoint.Name, strconv.Itoa(status)).Observe(time.Since(began).Seconds())
	})
}

// answer does what was asked; who asks is known before the body is read.
func (c *Carrier) answer(endpoint api.Endpoint, names []string, w http.ResponseWriter, r *http.Request) (api.Output, error) {
	ctx := r.Context()
	var caller access.Caller
	if endpoint.Caller != access.Nobody {
		var err error
		if caller, err = c.platform.Bearer(ctx, r.Header.Get("Authorization")); err != nil {
			return api.Output{}, err
		}
	}
	if err := endpoint.Admit(caller); err != nil {
		return api.Output{}, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return api.Output{}, api.TooLarge
	} else if err != nil {
		return api.Output{}, &api.Refusal{Status: http.StatusBadRequest, Message: "the body ended too early"}
	}
	input := api.Input{Caller: caller, Path: map[string]string{}, Body: body}
	for _, name := range names {
		input.Path[name] = r.PathValue(name)
	}
	output, err := endpoint.Do(c.platform, ctx, input)
	if err == nil && output.Rest != nil {
		err = c.rest(ctx, output.Rest)
	}
	return output, err
}

func refuse(w http.ResponseWriter, refusal *api.Refusal) {
	if refusal.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	if refusal.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	reply(w, refusal.Status, map[string]string{"error": refusal.Message})
}

func reply(w http.ResponseWriter, status int, body any) {
	encoded, err := json.Marshal(body)
	if err != nil {
		slog.Error("an answer cannot be written as JSON", "error", err)
		status, encoded = http.StatusInternalServerError, []byte(`{"error":"the answer cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encoded)
}

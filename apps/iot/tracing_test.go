package main

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"testing"

	"towtank/apps/iot/api"
	"towtank/apps/iot/serve"
)

func TestSpansAreExported(t *testing.T) {
	var received bytes.Buffer
	var lock sync.Mutex
	collector := served(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lock.Lock()
		defer lock.Unlock()
		received.Write(append([]byte(r.URL.Path), body...))
	}))
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	flush, err := serve.Trace(t.Context(), "iot-core")
	must(t, err)
	b, rows := newBench(t)
	b.url = served(t, serve.NewCarrier(b.platform, api.Endpoints, serve.Before, always))
	b.want(200, "GET", "/api/users/", rows[0]["user_token"], nil)
	b.want(200, "GET", "/api/consumers/consume/"+rows[0]["sensor_id"], rows[0]["consumer_token"], nil)
	must(t, flush(t.Context()))
	for _, word := range []string{"/v1/traces", "iot-core", "users-get", "consumers-consume-get", "entities query", "index query"} {
		if !bytes.Contains(received.Bytes(), []byte(word)) {
			t.Errorf("%q was not exported", word)
		}
	}
}

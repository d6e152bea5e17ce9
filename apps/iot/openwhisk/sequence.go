package openwhisk

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"

	"towtank/apps/iot/api"
)

const (
	blockingFor = 60 * time.Second // OpenWhisk's bound on a blocking activation
	mostIdle    = 1000
)

// Sequence stands where OpenWhisk's controller would, for one sequence of actions behind addresses of their own: it makes parameters of a
// web request, carries them from action to action, and answers with what the last one says. It is an emulation: no activation is
// recorded, nothing is scheduled here.
type Sequence struct {
	addresses []string
	client    *http.Client
}

// NewSequence returns the sequence of the actions at some addresses, such as http://127.0.0.1:9001, in their order.
func NewSequence(addresses []string) (*Sequence, error) {
	if len(addresses) < 2 {
		return nil, fmt.Errorf("a sequence has two actions or more, not %d: name the address of each, such as http://127.0.0.1:9001", len(addresses))
	}
	for _, address := range addresses {
		if parsed, err := url.Parse(address); err != nil || parsed.Scheme != "http" || parsed.Host == "" {
			return nil, fmt.Errorf("an action's address must be like http://127.0.0.1:9001, not %q", address)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = mostIdle
	return &Sequence{addresses, &http.Client{Transport: otelhttp.NewTransport(transport), Timeout: blockingFor}}, nil
}

func (s *Sequence) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health/readiness" {
		reply(w, http.StatusOK, "ready")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, api.MaxBodyBytes))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		reply(w, api.TooLarge.Status, failure(api.TooLarge.Message))
		return
	} else if err != nil {
		reply(w, http.StatusBadRequest, failure("the body ended too early"))
		return
	}
	given := parameters{
		Method: r.Method, Headers: map[string]string{}, Path: r.URL.Path, Body: base64.StdEncoding.EncodeToString(body), Query: r.URL.RawQuery,
	}
	for name := range r.Header {
		given.Headers[name] = r.Header.Get(name)
	}
	value, err := json.Marshal(given)
	if err != nil {
		reply(w, http.StatusInternalServerError, failure(err.Error()))
		return
	}
	s.carry(w, r, value)
}

// carry hands a value from action to action. One that answers {"error": …} ends the sequence, and what is in it is the answer.
func (s *Sequence) carry(w http.ResponseWriter, r *http.Request, value json.RawMessage) {
	for _, address := range s.addresses {
		status, result, err := s.invoke(r.Context(), address, value)
		if err != nil {
			reply(w, http.StatusBadGateway, failure("an action did not answer: "+err.Error()))
			return
		}
		if status != http.StatusOK { // of what stands before the action, such as a bound on activations
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write(result)
			return
		}
		var ended struct {
			Error json.RawMessage `json:"error"`
		}
		if json.Unmarshal(result, &ended) == nil && ended.Error != nil {
			value = ended.Error
			break
		}
		value = result
	}
	unwrap(w, value)
}

// invoke asks one action.
func (s *Sequence) invoke(ctx context.Context, address string, value json.RawMessage) (int, []byte, error) {
	activation, err := json.Marshal(map[string]json.RawMessage{"value": value})
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(address, "/")+"/run", bytes.NewReader(activation))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	answered, err := s.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answered.Body.Close()
	result, err := io.ReadAll(answered.Body)
	return answered.StatusCode, result, err
}

// unwrap answers as a web action does.
func unwrap(w http.ResponseWriter, value []byte) {
	var last answer
	if err := json.Unmarshal(value, &last); err != nil || last.StatusCode == 0 {
		reply(w, http.StatusBadGateway, failure(fmt.Sprintf("the last action answered with no status: %.200s", value)))
		return
	}
	body, err := base64.StdEncoding.DecodeString(last.Body)
	if err != nil {
		reply(w, http.StatusBadGateway, failure("the last action's body is not in base64"))
		return
	}
	for name, text := range last.Headers {
		w.Header().Set(name, text)
	}
	w.WriteHeader(last.StatusCode)
	_, _ = w.Write(body)
}

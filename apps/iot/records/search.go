package records

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	answersWithin = 30 * time.Second
	mostToSearch  = 32
)

// Search is an Index in Elasticsearch or OpenSearch, over five requests of their common REST interface: the client library of each
// refuses the other's server.
type Search struct {
	address string
	client  *http.Client
	names   names
}

var _ Index = (*Search)(nil)

// OpenSearch connects to a server such as http://search:9200.
func OpenSearch(ctx context.Context, address, prefix string) (*Search, error) {
	if parsed, err := url.Parse(address); err != nil || parsed.Host == "" {
		return nil, fmt.Errorf("IOT_SEARCH must be an address such as http://search:9200, not %q", address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = mostToSearch
	s := &Search{strings.TrimSuffix(address, "/"), &http.Client{Transport: transport, Timeout: answersWithin}, names(prefix)}
	if err := s.ask(ctx, http.MethodGet, "/", nil, nil); err != nil {
		return nil, fmt.Errorf("the search server: %w", err)
	}
	return s, nil
}

// answered is a status that says no.
type answered struct {
	status int
	body   string
}

func (a *answered) Error() string { return fmt.Sprintf("answered %d: %s", a.status, a.body) }

func hasStatus(err error, status int) bool {
	said := (*answered)(nil)
	return errors.As(err, &said) && said.status == status
}

// ask sends a body of JSON, or of JSON lines, and reads the answer into `into`.
func (s *Search) ask(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, s.address+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if strings.HasSuffix(path, "/_bulk") {
		request.Header.Set("Content-Type", "application/x-ndjson")
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return fmt.Errorf("%s %s: %w", method, path, &answered{answer.StatusCode, string(text)})
	}
	if into == nil {
		_, err := io.Copy(io.Discard, answer.Body) // a connection is used again when its answer was read
		return err
	}
	return json.NewDecoder(answer.Body).Decode(into)
}

func (s *Search) path(sensorID int64) string { return "/" + s.names.of(sensorID) }

// AddIndex implements Index.
func (s *Search) AddIndex(ctx context.Context, sensorID int64) error {
	ctx, span := tracer.Start(ctx, "index add")
	defer span.End()
	const settings = `{"settings": {"number_of_shards": 1, "number_of_replicas": 0}, "mappings": {"dynamic": "strict", "properties": {
		"value": {"type": "double"}, "timestamp": {"type": "date", "format": "epoch_millis"}, "offset": {"type": "long"}}}}`
	err := s.ask(ctx, http.MethodPut, s.path(sensorID), []byte(settings), nil)
	if hasStatus(err, http.StatusBadRequest) && strings.Contains(err.Error(), "resource_already_exists_exception") {
		return nil
	}
	return err
}

// Indices implements Index.
func (s *Search) Indices(ctx context.Context) ([]int64, error) {
	var listed []struct {
		Index string `json:"index"`
	}
	if err := s.ask(ctx, http.MethodGet, "/_cat/indices/"+string(s.names)+"*?format=json&h=index", nil, &listed); err != nil {
		return nil, err
	}
	var found []int64
	for _, one := range listed {
		if id, isOne := s.names.sensor(one.Index); isOne {
			found = append(found, id)
		}
	}
	return found, nil
}

type document struct {
	Value     float64 `json:"value"`
	Timestamp int64   `json:"timestamp"`
	Offset    int64   `json:"offset,omitempty"`
}

// Put implements Index: a document's id is its offset.
func (s *Search) Put(ctx context.Context, sensorID int64, entries []Entry) error {
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, e := range entries {
		action := map[string]any{"index": map[string]string{"_id": strconv.FormatInt(e.Offset, 10)}}
		if err := errors.Join(encoder.Encode(action), encoder.Encode(document{e.Value, e.Timestamp, e.Offset})); err != nil {
			return err
		}
	}
	var answer struct {
		Errors bool `json:"errors"`
	}
	if err := s.ask(ctx, http.MethodPost, s.path(sensorID)+"/_bulk", lines.Bytes(), &answer); err != nil {
		return err
	}
	if answer.Errors {
		return fmt.Errorf("some of %d records of sensor %d were not indexed", len(entries), sensorID)
	}
	return nil
}

// Last implements Index. What was indexed within the last second may not be seen yet; it is then put again, under the same ids.
func (s *Search) Last(ctx context.Context, sensorID int64) (int64, error) {
	var answer struct {
		Aggregations struct {
			Last struct {
				Value *float64 `json:"value"`
			} `json:"last"`
		} `json:"aggregations"`
	}
	err := s.search(ctx, sensorID, `{"size": 0, "aggs": {"last": {"max": {"field": "offset"}}}}`, &answer)
	if err != nil || answer.Aggregations.Last.Value == nil {
		return 0, err
	}
	return int64(*answer.Aggregations.Last.Value), nil
}

// Newest implements Index.
func (s *Search) Newest(ctx context.Context, sensorID int64, most int) ([]Record, error) {
	ctx, span := tracer.Start(ctx, "index query")
	defer span.End()
	var answer struct {
		Hits struct {
			Hits []struct {
				Source document `json:"_source"`
			} `json:"hits"`
		} `json:"hits"`
	}
	query := fmt.Sprintf(`{"size": %d, "sort": [{"timestamp": "desc"}], "_source": ["value", "timestamp"]}`, most)
	if err := s.search(ctx, sensorID, query, &answer); err != nil {
		return nil, err
	}
	found := make([]Record, len(answer.Hits.Hits))
	for at, hit := range answer.Hits.Hits {
		found[at] = Record{sensorID, hit.Source.Value, hit.Source.Timestamp}
	}
	return found, nil
}

// search asks one index; one that is not there has nothing in it.
func (s *Search) search(ctx context.Context, sensorID int64, query string, into any) error {
	err := s.ask(ctx, http.MethodPost, s.path(sensorID)+"/_search", []byte(query), into)
	if hasStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// Close implements Index.
func (s *Search) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

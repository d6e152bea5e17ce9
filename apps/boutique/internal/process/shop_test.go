package process

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"towtank.example/boutique/internal/mesh"
	"towtank.example/boutique/internal/placement"
)

// world is all processes of a placement, each with a server of its own.
type world struct {
	t       *testing.T
	front   string
	servers map[string][]*http.Server // by process
	urls    map[string][]string
}

func start(t *testing.T, placed *placement.Placement, replicas int) *world {
	t.Helper()
	w := &world{t: t, servers: map[string][]*http.Server{}, urls: map[string][]string{}}
	listeners := map[string][]net.Listener{}
	for _, process := range placed.Processes {
		for range replicas {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			listeners[process.Name] = append(listeners[process.Name], listener)
			w.urls[process.Name] = append(w.urls[process.Name], "http://"+listener.Addr().String())
		}
	}
	addresses, err := placed.Addresses(w.urls)
	if err != nil {
		t.Fatal(err)
	}
	for _, process := range placed.Processes {
		for i, listener := range listeners[process.Name] {
			config := mesh.Config{Process: process.Name, Index: i, Addresses: addresses, Keyed: placement.Keyed, Policies: placed.Policies}
			handler, err := Handler(config, process)
			if err != nil {
				t.Fatal(err)
			}
			server := NewServer(handler)
			w.servers[process.Name] = append(w.servers[process.Name], server)
			go func() { _ = server.Serve(listener) }() // it ends with ErrServerClosed
			t.Cleanup(func() { _ = server.Close() })
		}
	}
	w.front = w.urls[placed.Of(placement.Front).Name][0]
	return w
}

func parsed(t *testing.T, text string) *placement.Placement {
	t.Helper()
	placed, err := placement.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return placed
}

// allPlacements are the eight that come with the shop.
func allPlacements(t *testing.T) map[string]*placement.Placement {
	t.Helper()
	files, err := filepath.Glob("../../placements/*.toml")
	if err != nil || len(files) != 8 {
		t.Fatalf("%d placements (%v)", len(files), err)
	}
	all := map[string]*placement.Placement{}
	for _, file := range files {
		placed, err := placement.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(file), ".toml")] = placed
	}
	return all
}

// away ends a process; what it counted is gone with it.
func (w *world) away(process string) {
	for _, server := range w.servers[process] {
		_ = server.Close()
	}
	delete(w.urls, process)
}

// edge is what was counted of one.
type edge struct{ from, to, where string }

// counted adds up a counter over all processes.
func (w *world) counted(name string) map[edge]float64 {
	w.t.Helper()
	found := map[edge]float64{}
	for _, urls := range w.urls {
		for _, address := range urls {
			answer, err := http.Get(address + "/metrics")
			if err != nil {
				w.t.Fatal(err)
			}
			parser := expfmt.NewTextParser(model.LegacyValidation)
			families, err := parser.TextToMetricFamilies(answer.Body)
			answer.Body.Close()
			if err != nil {
				w.t.Fatal(err)
			}
			for _, metric := range families["boutique_edge_"+name].GetMetric() {
				var e edge
				for _, label := range metric.GetLabel() {
					switch label.GetName() {
					case "from":
						e.from = label.GetValue()
					case "to":
						e.to = label.GetValue()
					case "where":
						e.where = label.GetValue()
					}
				}
				found[e] += metric.GetCounter().GetValue()
			}
		}
	}
	return found
}

func (w *world) remote(name, from, to string) float64 {
	return w.counted(name)[edge{from, to, "remote"}]
}

// visitor is somebody with cookies who follows redirects.
type visitor struct {
	t        *testing.T
	client   *http.Client
	front    string
	requests int
	got      []string // all that was answered, without what is drawn by lot
}

func (w *world) visitor() *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	v := &visitor{t: w.t, front: w.front, client: &http.Client{Jar: jar}}
	v.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		v.requests++
		return nil
	}
	return v
}

var drawn = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)

func (v *visitor) ask(method, path string, form url.Values) (status int, body string, header http.Header) {
	v.t.Helper()
	request, err := http.NewRequest(method, v.front+path, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	v.requests++
	answer, err := v.client.Do(request)
	if err != nil {
		v.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	v.got = append(v.got, fmt.Sprintf("%s %s: %d\n%s", method, path, answer.StatusCode, drawn.ReplaceAllString(string(text), "DRAWN")))
	return answer.StatusCode, string(text), answer.Header
}

func (v *visitor) get(path string) (int, string, http.Header) { return v.ask("GET", path, nil) }

func (v *visitor) post(path string, pairs ...string) (int, string, http.Header) {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return v.ask("POST", path, form)
}

// order is the form of one.
var order = []string{
	"email", "a@example.com", "street", "1 Quay Street", "city", "Harbour", "zip", "1", "country", "Nowhere",
	"number", "4111 1111 1111 1111", "month", "12", "year", "2999", "code", "123",
}

func (v *visitor) order() (int, string, http.Header) { return v.post("/checkout", order...) }

// want asks for something that has one status, whatever the placement.
func (v *visitor) want(wanted int, method, path string, pairs ...string) {
	v.t.Helper()
	ask := v.post
	if method == http.MethodGet {
		ask = func(path string, _ ...string) (int, string, http.Header) { return v.get(path) }
	}
	if status, body, _ := ask(path, pairs...); status != wanted {
		v.t.Fatalf("%s %s: %d, not %d\n%s", method, path, status, wanted, body)
	}
}

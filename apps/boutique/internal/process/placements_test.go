package process

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// session is everything that one can do here, wrong things too.
func session(v *visitor) {
	v.t.Helper()
	v.want(200, "GET", "/")
	v.want(200, "POST", "/currency", "currency", "JPY")
	v.want(200, "GET", "/product/lantern")
	v.want(200, "POST", "/cart", "product_id", "lantern", "quantity", "3")
	v.want(200, "POST", "/cart", "product_id", "mug", "quantity", "1")
	v.want(200, "POST", "/cart", "product_id", "lantern", "quantity", "2")
	v.want(200, "GET", "/cart")
	v.want(404, "GET", "/product/none")
	v.want(404, "GET", "/nowhere")
	v.want(404, "POST", "/cart", "product_id", "none", "quantity", "1")
	v.want(400, "POST", "/cart", "product_id", "mug", "quantity", "11")
	v.want(400, "POST", "/cart", "product_id", "mug", "quantity", "many")
	v.want(400, "POST", "/currency", "currency", "XXX")
	v.want(400, "POST", "/checkout", "month", "12", "year", "2001", "number", "4111111111111111", "street", "x", "city", "y")
	v.want(200, "POST", "/checkout", order...)
	v.want(200, "GET", "/cart")
	v.want(409, "POST", "/checkout", order...)
	v.want(200, "POST", "/cart", "product_id", "rope", "quantity", "1")
	v.want(200, "POST", "/cart/empty")
}

func TestEveryPlacementGivesTheSameAnswers(t *testing.T) {
	var answers []string
	calls := map[string]float64{}
	all := allPlacements(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, replicas := range []int{1, 2} {
			w := start(t, all[name], replicas)
			v := w.visitor()
			session(v)
			if answers == nil {
				answers = v.got
			}
			for i := range answers {
				if v.got[i] != answers[i] {
					t.Fatalf("%s with %d replicas answers otherwise:\n%s\nand not\n%s", name, replicas, v.got[i], answers[i])
				}
			}
			matrix := map[string]float64{}
			for e, count := range w.counted("calls_total") {
				matrix[e.from+">"+e.to] += count
			}
			if len(calls) == 0 {
				calls = matrix
			}
			if !maps.Equal(matrix, calls) {
				t.Errorf("%s with %d replicas calls otherwise: %v and not %v", name, replicas, matrix, calls)
			}
			// one request leads nowhere and is nobody's
			if got := w.remote("calls_total", "load", "frontend"); got != float64(v.requests-1) {
				t.Errorf("%s: %v requests counted, %d made", name, got, v.requests-1)
			}
		}
	}
	if !strings.Contains(strings.Join(answers, ""), "JPY") {
		t.Error("no price in the chosen currency")
	}
}

func TestOnlyCallsBetweenProcessesHaveBytes(t *testing.T) {
	for name, placed := range allPlacements(t) {
		w := start(t, placed, 1)
		session(w.visitor())
		calls, sent, received := w.counted("calls_total"), w.counted("sent_bytes_total"), w.counted("received_bytes_total")
		remote := 0
		for e, count := range calls {
			if e.from == "load" {
				continue
			}
			together := placed.Of(e.from).Name == placed.Of(e.to).Name
			if together != (e.where == "local") {
				t.Errorf("%s: %v calls over %v, which are together: %v", name, count, e, together)
			}
			if bytes := sent[e] + received[e]; (bytes > 0) != (e.where == "remote") {
				t.Errorf("%s: %v bytes over %v", name, bytes, e)
			}
			if e.where == "remote" {
				remote++
			}
		}
		if name == "one-process" && remote != 0 {
			t.Errorf("one process has %d remote edges", remote)
		}
		if name == "all-apart" && remote != len(calls)-1 {
			t.Errorf("all apart has %d remote edges of %d", remote, len(calls)-1)
		}
	}
}

var cartSize = regexp.MustCompile(`id="cart-size">(\d+)<`)

func TestReplicasKeepEachUsersCartAtOnePlace(t *testing.T) {
	for _, name := range []string{"one-process", "two-groups", "all-apart"} {
		w := start(t, allPlacements(t)[name], 3)
		for range 20 {
			v := w.visitor()
			for i, front := range w.urls[allPlacements(t)[name].Of("frontend").Name] { // whichever frontend is asked
				v.client.Jar.SetCookies(mustURL(t, front), v.client.Jar.Cookies(mustURL(t, w.front)))
				v.front = front
				status, body, _ := v.post("/cart", "product_id", "cap", "quantity", "1")
				if size := cartSize.FindStringSubmatch(body); status != 200 || size == nil || size[1] != string(rune('1'+i)) {
					t.Fatalf("%s: %d with %v items after %d", name, status, size, i+1)
				}
			}
		}
	}
}

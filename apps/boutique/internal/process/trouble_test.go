package process

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	parsed, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestAComponentThatIsAway(t *testing.T) {
	for away, wanted := range map[string]struct {
		home, cart, order int
		degraded          string
	}{
		"catalogue":      {503, 503, 503, ""},
		"currency":       {503, 503, 503, ""},
		"cart":           {503, 503, 503, ""},
		"cartcache":      {503, 503, 503, ""},
		"checkout":       {200, 200, 503, ""},
		"payment":        {200, 200, 503, ""},
		"shipping":       {200, 503, 503, ""},
		"email":          {200, 200, 200, ""},
		"ads":            {200, 200, 200, "ads"},
		"recommendation": {200, 200, 200, "recommendation"},
	} {
		w := start(t, parsed(t, `title = "all apart"`), 1)
		v := w.visitor()
		if status, _, _ := v.post("/cart", "product_id", "mug", "quantity", "1"); status != 200 {
			t.Fatalf("cart: %d", status)
		}
		w.away(away)
		page := "/"
		if away == "recommendation" {
			page = "/product/mug"
		}
		home, _, header := v.get(page)
		cart, _, _ := v.get("/cart")
		order, _, _ := v.order()
		if home != wanted.home || cart != wanted.cart || order != wanted.order || header.Get("X-Degraded") != wanted.degraded {
			t.Errorf("without %s: page %d, cart %d, order %d, without %q; wanted %+v", away, home, cart, order, header.Get("X-Degraded"), wanted)
		}
	}
}

func TestAnOrderThatFailsKeepsTheCart(t *testing.T) {
	w := start(t, parsed(t, "[edges.\"checkout>payment\"]\nfault = 1"), 1)
	v := w.visitor()
	v.post("/cart", "product_id", "mug", "quantity", "2")
	if status, _, _ := v.order(); status != 503 {
		t.Fatalf("an order without payment: %d", status)
	}
	if _, body, _ := v.get("/cart"); !strings.Contains(body, `id="line-mug"`) {
		t.Error("the cart is gone")
	}
}

func TestRetriesAreCountedAndHelp(t *testing.T) {
	w := start(t, parsed(t, "[edges.\"*\"]\nretries = 3\nretry_wait = \"1ms\"\n[edges.\"frontend>currency\"]\nfault = 0.3\n[edges.\"frontend>cart\"]\nfault = 1"), 1)
	v := w.visitor()
	if status, _, _ := v.get("/"); status != 503 {
		t.Fatalf("without the cart: %d", status)
	}
	if tried, again, calls := w.remote("attempts_total", "frontend", "cart"), w.remote("retries_total", "frontend", "cart"), w.remote("calls_total", "frontend", "cart"); tried != 4 || again != 3 || calls != 1 {
		t.Errorf("%v attempts, %v retries, %v calls; wanted 4, 3, 1", tried, again, calls)
	}
	// A call that is not repeatable is repeated when it was not sent.
	v.post("/cart", "product_id", "mug", "quantity", "1")
	if tried := w.remote("attempts_total", "frontend", "cart"); tried != 8 {
		t.Errorf("%v attempts, not 8", tried)
	}
	for range 300 {
		v.post("/currency", "currency", "none") // one call of currency each
	}
	calls, failures := w.remote("calls_total", "frontend", "currency"), w.remote("errors_total", "frontend", "currency")
	again, faults := w.remote("retries_total", "frontend", "currency"), w.remote("faults_total", "frontend", "currency")
	// 0.3 ** 4 of calls fail; 0.3 + 0.09 + 0.027 of them are retries. Bounds are five standard deviations and more.
	if failures > 0.05*calls || again < 0.25*calls || again > 0.6*calls || faults != again+failures {
		t.Errorf("of %v calls %v failed; %v retries, %v faults", calls, failures, again, faults)
	}
}

func TestACallThatMayHaveArrivedIsNotRepeated(t *testing.T) {
	w := start(t, parsed(t, "[edges.\"*\"]\nretries = 2\nretry_wait = \"1ms\""), 1)
	v := w.visitor()
	w.away("cartcache") // cart answers "unavailable", to a call that arrived
	if status, _, _ := v.post("/cart", "product_id", "mug", "quantity", "1"); status != 503 {
		t.Fatal("it was added")
	}
	if tried := w.remote("attempts_total", "frontend", "cart"); tried != 1 {
		t.Errorf("AddItem was tried %v times", tried)
	}
	v.get("/cart")
	if tried := w.remote("attempts_total", "frontend", "cart"); tried != 1+3 {
		t.Errorf("GetCart was tried %v times, not 3", tried-1)
	}
}

func TestTheBreakerOpensAndCloses(t *testing.T) {
	text := "[edges.\"frontend>cart\"]\nbreaker = true\nbreak_failures = 3\nbreak_of = 4\nbreak_wait = \"%s\"\nfault = %d"
	w := start(t, parsed(t, fmt.Sprintf(text, "1h", 1)), 1)
	v := w.visitor()
	for range 10 {
		if status, _, _ := v.get("/cart"); status != http.StatusServiceUnavailable {
			t.Fatalf("%d", status)
		}
	}
	tried, opened, rejected := w.remote("attempts_total", "frontend", "cart"), w.remote("breaker_opened_total", "frontend", "cart"), w.remote("breaker_rejected_total", "frontend", "cart")
	if opened != 1 || tried+rejected != 10 || tried < 3 || tried > 4 {
		t.Errorf("opened %v times, %v tried, %v rejected", opened, tried, rejected)
	}

	// Without the fault it closes again: a cart that answers "not found" or "no" is no trouble.
	w = start(t, parsed(t, fmt.Sprintf(text, "1ms", 0)), 1)
	v = w.visitor()
	for range 10 {
		if status, _, _ := v.post("/cart", "product_id", "mug", "quantity", "11"); status != 400 {
			t.Fatalf("%d", status)
		}
	}
	if opened := w.remote("breaker_opened_total", "frontend", "cart"); opened != 0 {
		t.Errorf("opened %v times by answers", opened)
	}
}

func TestABreakerLetsOneThroughAfterItsWait(t *testing.T) {
	w := start(t, parsed(t, "[edges.\"checkout>payment\"]\nbreaker = true\nbreak_failures = 2\nbreak_of = 2\nbreak_wait = \"50ms\"\nfault = 1"), 1)
	v := w.visitor()
	v.post("/cart", "product_id", "mug", "quantity", "1")
	for range 5 {
		v.order()
	}
	before := w.remote("attempts_total", "checkout", "payment")
	time.Sleep(60 * time.Millisecond)
	v.order()
	if after := w.remote("attempts_total", "checkout", "payment"); after != before+1 || w.remote("breaker_opened_total", "checkout", "payment") < 2 {
		t.Errorf("%v attempts before, %v after the wait", before, after)
	}
}

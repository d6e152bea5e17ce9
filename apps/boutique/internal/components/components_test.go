package components

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"towtank.example/boutique/internal/shop"
)

var ctx = context.Background()

func TestConvertingRoundsToAHundredth(t *testing.T) {
	got, err := NewCurrency().Convert(ctx, &shop.ConvertRequest{From: &shop.Money{Currency: "GBP", Hundredths: 850}, To: "USD"})
	if err != nil || got.GetHundredths() != 1100 || got.GetCurrency() != "USD" { // 8.50 / 0.85 * 1.1
		t.Errorf("%v, %v", got, err)
	}
	if _, err = NewCurrency().Convert(ctx, &shop.ConvertRequest{From: &shop.Money{Currency: "EUR"}, To: "XXX"}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Error(err)
	}
}

func TestCardsAreLookedAt(t *testing.T) {
	payment := &Payment{func() time.Time { return time.Date(2030, 6, 30, 0, 0, 0, 0, time.UTC) }}
	for _, c := range []struct {
		number      string
		month, year int32
		hundredths  int64
		good        bool
	}{
		{"4111 1111 1111 1111", 6, 2030, 1, true},
		{"4111-1111-1111-1112", 6, 2030, 1, false}, // its check digit
		{"4111111111111111", 5, 2030, 1, false},    // over since last month
		{"4111111111111111", 13, 2030, 1, false},
		{"4111111111111111", 6, 2030, 0, false},
		{"", 6, 2030, 1, false},
		{"41111111x1111111", 6, 2030, 1, false},
	} {
		_, err := payment.Charge(ctx, &shop.ChargeRequest{
			Amount: &shop.Money{Currency: "EUR", Hundredths: c.hundredths}, Card: &shop.Card{Number: c.number, Month: c.month, Year: c.year},
		})
		if (err == nil) != c.good || (err != nil && connect.CodeOf(err) != connect.CodeInvalidArgument) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func add(cache *CartCache, user, product string) {
	_, _ = cache.Add(ctx, &shop.AddItemRequest{UserId: user, Item: &shop.Item{ProductId: product, Quantity: 1}})
}

func items(cache *CartCache, user string) []*shop.Item {
	found, _ := cache.Get(ctx, &shop.UserRequest{UserId: user})
	return found.GetItems()
}

func TestTheCacheForgetsWhoWasThereTheLongestAgo(t *testing.T) {
	cache := NewCartCache(2)
	add(cache, "a", "mug")
	add(cache, "b", "mug")
	items(cache, "a")
	add(cache, "c", "mug")
	if len(items(cache, "a")) != 1 || len(items(cache, "b")) != 0 || len(items(cache, "c")) != 1 {
		t.Error("another one was forgotten")
	}
}

func TestTheCacheLosesNothingThatIsAddedAtOnce(t *testing.T) {
	cache := NewCartCache(10)
	add(cache, "a", "mug")
	handed := items(cache, "a")
	var group sync.WaitGroup
	for i := range 100 {
		group.Add(1)
		go func() { defer group.Done(); add(cache, "a", fmt.Sprint("p", i%2)) }()
	}
	group.Wait()
	if got := items(cache, "a"); len(got) != 3 || got[1].GetQuantity() != 50 || got[2].GetQuantity() != 50 {
		t.Error(got)
	}
	if len(handed) != 1 {
		t.Error("what was handed out before has changed")
	}
}

func TestProposalsLeaveOutWhatIsSeen(t *testing.T) {
	catalogue, err := NewCatalogue()
	if err != nil {
		t.Fatal(err)
	}
	got, err := NewRecommendation(catalogue).Recommend(ctx, &shop.RecommendRequest{ProductIds: []string{"mug", "cap"}})
	if err != nil || len(got.GetProductIds()) != 4 {
		t.Fatal(got, err)
	}
	for _, id := range got.GetProductIds() {
		if id == "mug" || id == "cap" {
			t.Error(got)
		}
	}
}

package components

import (
	"context"
	"fmt"
	"math"
	"sort"
	"strings"

	"connectrpc.com/connect"

	"towtank.example/boutique/internal/shop"
)

const baseCurrency = "EUR"

// rates to one euro: made up once and never changed, so that totals are the same in every run.
var rates = map[string]float64{"EUR": 1, "USD": 1.1, "GBP": 0.85, "CHF": 0.95, "JPY": 160, "SEK": 11.4, "TRY": 35}

// Currency converts amounts at fixed rates.
type Currency struct{ names []string }

// NewCurrency knows some currencies.
func NewCurrency() *Currency {
	c := &Currency{}
	for name := range rates {
		c.names = append(c.names, name)
	}
	sort.Strings(c.names)
	return c
}

// ListCurrencies has their codes, in the alphabet's order.
func (c *Currency) ListCurrencies(context.Context, *shop.ListCurrenciesRequest) (*shop.ListCurrenciesResponse, error) {
	return &shop.ListCurrenciesResponse{Currencies: c.names}, nil
}

// Convert rounds to a hundredth; InvalidArgument for a currency that is none.
func (c *Currency) Convert(_ context.Context, in *shop.ConvertRequest) (*shop.Money, error) {
	from, known := rates[in.GetFrom().GetCurrency()]
	to, alsoKnown := rates[in.GetTo()]
	if !known || !alsoKnown {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(
			"cannot convert from %q to %q; allowed are %s", in.GetFrom().GetCurrency(), in.GetTo(), strings.Join(c.names, ", ")))
	}
	return &shop.Money{Currency: in.GetTo(), Hundredths: int64(math.Round(float64(in.GetFrom().GetHundredths()) / from * to))}, nil
}

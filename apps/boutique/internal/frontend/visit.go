package frontend

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"towtank.example/boutique/internal/shop"
)

const (
	userCookie      = "boutique_user"
	currencyCookie  = "boutique_currency"
	defaultCurrency = "EUR"
	cookieAge       = 48 * 60 * 60 // s
	longestUser     = 64           // bytes; ours have 36
)

// visit is one request with what every page shows.
type visit struct {
	answer  http.ResponseWriter
	request *http.Request
	missing []string

	User, Currency string
	Currencies     []string
	CartSize       int
}

// visit knows who asks by a cookie, and gives one to who has none.
func (f *Frontend) visit(w http.ResponseWriter, r *http.Request) *visit {
	v := &visit{answer: w, request: r, Currency: defaultCurrency}
	if cookie, err := r.Cookie(currencyCookie); err == nil {
		v.Currency = cookie.Value
	}
	if cookie, err := r.Cookie(userCookie); err == nil && cookie.Value != "" && len(cookie.Value) <= longestUser {
		v.User = cookie.Value
	} else {
		v.User = uuid.NewString()
		v.keep(userCookie, v.User)
	}
	return v
}

func (v *visit) keep(name, value string) {
	http.SetCookie(v.answer, &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: cookieAge, HttpOnly: true, SameSite: http.SameSiteLaxMode})
}

func (v *visit) misses(component string, err error) {
	v.missing = append(v.missing, component)
	slog.Info("a page without something", "component", component, "error", err)
}

// frame asks for what every page shows: currencies and the size of the cart.
func (f *Frontend) frame(ctx context.Context, v *visit) (*shop.Items, error) {
	currencies, err := f.Currency.ListCurrencies(ctx, &shop.ListCurrenciesRequest{})
	if err != nil {
		return nil, err
	}
	cart, err := f.Cart.GetCart(ctx, &shop.UserRequest{UserId: v.User})
	if err != nil {
		return nil, err
	}
	v.Currencies = currencies.GetCurrencies()
	if !slices.Contains(v.Currencies, v.Currency) { // a cookie may say anything
		v.Currency = defaultCurrency
	}
	for _, item := range cart.GetItems() {
		v.CartSize += int(item.GetQuantity())
	}
	return cart, nil
}

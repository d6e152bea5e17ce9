package frontend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"towtank.example/boutique/internal/shop"
)

// priced is a product with what it costs in the visitor's currency.
type priced struct {
	*shop.Product
	Cost *shop.Money
}

// line is one of the cart's, or of an order's.
type line struct {
	priced
	Quantity int32
	Sum      *shop.Money
}

func (f *Frontend) home(v *visit) error {
	ctx := v.request.Context()
	if _, err := f.frame(ctx, v); err != nil {
		return err
	}
	all, err := f.Catalogue.ListProducts(ctx, &shop.ListProductsRequest{})
	if err != nil {
		return err
	}
	products := make([]priced, 0, len(all.GetProducts()))
	for _, product := range all.GetProducts() {
		one, err := f.price(ctx, v, product)
		if err != nil {
			return err
		}
		products = append(products, one)
	}
	return f.show(v, http.StatusOK, "home", map[string]any{"Products": products, "Ad": f.advert(ctx, v)})
}

func (f *Frontend) product(v *visit) error {
	ctx := v.request.Context()
	product, err := f.Catalogue.GetProduct(ctx, &shop.GetProductRequest{Id: v.request.PathValue("id")})
	if err != nil {
		return err
	}
	if _, err := f.frame(ctx, v); err != nil {
		return err
	}
	one, err := f.price(ctx, v, product)
	if err != nil {
		return err
	}
	proposals, err := f.alsoLiked(ctx, v, product.GetId())
	if err != nil {
		return err
	}
	return f.show(v, http.StatusOK, "product", map[string]any{
		"Product": one, "Proposals": proposals, "Ad": f.advert(ctx, v, product.GetCategories()...),
	})
}

func (f *Frontend) cart(v *visit) error {
	ctx := v.request.Context()
	cart, err := f.frame(ctx, v)
	if err != nil {
		return err
	}
	quote, err := f.Shipping.GetQuote(ctx, &shop.QuoteRequest{Items: cart.GetItems()})
	if err != nil {
		return err
	}
	shipping, err := f.Currency.Convert(ctx, &shop.ConvertRequest{From: quote, To: v.Currency})
	if err != nil {
		return err
	}
	total := &shop.Money{Currency: v.Currency, Hundredths: shipping.GetHundredths()}
	lines, ids := make([]line, 0, len(cart.GetItems())), []string{}
	for _, item := range cart.GetItems() {
		product, err := f.Catalogue.GetProduct(ctx, &shop.GetProductRequest{Id: item.GetProductId()})
		if err != nil {
			return err
		}
		one, err := f.price(ctx, v, product)
		if err != nil {
			return err
		}
		sum := &shop.Money{Currency: v.Currency, Hundredths: one.Cost.GetHundredths() * int64(item.GetQuantity())}
		total.Hundredths += sum.GetHundredths()
		lines, ids = append(lines, line{one, item.GetQuantity(), sum}), append(ids, item.GetProductId())
	}
	proposals, err := f.alsoLiked(ctx, v, ids...)
	if err != nil {
		return err
	}
	return f.show(v, http.StatusOK, "cart", map[string]any{
		"Lines": lines, "Shipping": shipping, "Total": total, "Proposals": proposals, "Year": time.Now().Year() + 1,
	})
}

func (f *Frontend) addToCart(v *visit) error {
	ctx := v.request.Context()
	quantity, err := strconv.ParseInt(v.request.PostFormValue("quantity"), 10, 32)
	if err != nil {
		return wrong("quantity: %q is no whole number", v.request.PostFormValue("quantity"))
	}
	product, err := f.Catalogue.GetProduct(ctx, &shop.GetProductRequest{Id: v.request.PostFormValue("product_id")})
	if err != nil {
		return err
	}
	item := &shop.Item{ProductId: product.GetId(), Quantity: int32(quantity)}
	if _, err := f.Cart.AddItem(ctx, &shop.AddItemRequest{UserId: v.User, Item: item}); err != nil {
		return err
	}
	return v.goTo("/cart")
}

func (f *Frontend) emptyCart(v *visit) error {
	if _, err := f.Cart.EmptyCart(v.request.Context(), &shop.UserRequest{UserId: v.User}); err != nil {
		return err
	}
	return v.goTo("/")
}

// setCurrency goes back to where the visitor came from, on this shop.
func (f *Frontend) setCurrency(v *visit) error {
	chosen := v.request.PostFormValue("currency")
	currencies, err := f.Currency.ListCurrencies(v.request.Context(), &shop.ListCurrenciesRequest{})
	if err != nil {
		return err
	}
	if !slices.Contains(currencies.GetCurrencies(), chosen) {
		return wrong("currency: there is no %q; allowed are %s", chosen, strings.Join(currencies.GetCurrencies(), ", "))
	}
	v.keep(currencyCookie, chosen)
	back := "/"
	if from, err := url.Parse(v.request.Referer()); err == nil && from.Host == v.request.Host && strings.HasPrefix(from.Path, "/") && !strings.HasPrefix(from.Path, "//") {
		back = from.EscapedPath()
	}
	return v.goTo(back)
}

func (f *Frontend) checkout(v *visit) error {
	ctx, form := v.request.Context(), v.request.PostFormValue
	month, monthErr := strconv.ParseInt(form("month"), 10, 32)
	year, yearErr := strconv.ParseInt(form("year"), 10, 32)
	if err := errors.Join(monthErr, yearErr); err != nil {
		return wrong("month and year: %q and %q; both are whole numbers", form("month"), form("year"))
	}
	order, err := f.Checkout.PlaceOrder(ctx, &shop.PlaceOrderRequest{
		UserId: v.User, Currency: v.Currency, Email: form("email"),
		Address: &shop.Address{Street: form("street"), City: form("city"), Country: form("country"), Zip: form("zip")},
		Card:    &shop.Card{Number: form("number"), Month: int32(month), Year: int32(year), Code: form("code")},
	})
	if err != nil {
		return err
	}
	if _, err := f.frame(ctx, v); err != nil {
		return err
	}
	proposals, err := f.alsoLiked(ctx, v)
	if err != nil {
		return err
	}
	return f.show(v, http.StatusOK, "order", map[string]any{"Order": order, "Proposals": proposals})
}

func (f *Frontend) price(ctx context.Context, v *visit, product *shop.Product) (priced, error) {
	cost, err := f.Currency.Convert(ctx, &shop.ConvertRequest{From: product.GetPrice(), To: v.Currency})
	return priced{product, cost}, err
}

// alsoLiked has names for the proposals: the catalogue is asked, as for any list.
func (f *Frontend) alsoLiked(ctx context.Context, v *visit, seen ...string) ([]*shop.Product, error) {
	all, err := f.Catalogue.ListProducts(ctx, &shop.ListProductsRequest{})
	if err != nil {
		return nil, err
	}
	return f.proposals(ctx, v, all.GetProducts(), seen...), nil
}

func (v *visit) goTo(path string) error {
	http.Redirect(v.answer, v.request, path, http.StatusSeeOther)
	return nil
}

func wrong(format string, values ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, values...))
}

// Package frontend is the component that people see: pages made of what the others say.
package frontend

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"towtank.example/boutique/internal/mesh"
	"towtank.example/boutique/internal/shop"
	"towtank.example/boutique/internal/shop/shopedges"
)

//go:embed templates
var templates embed.FS

// mostForm bounds what a form may send.
const mostForm = 16 << 10

// Frontend makes pages. A page needs the catalogue, the cart and the currencies; without ads and recommendations it is shown as it is,
// and its header X-Degraded names what is missing.
type Frontend struct {
	Catalogue      shopedges.Catalogue
	Cart           shopedges.Cart
	Currency       shopedges.Currency
	Shipping       shopedges.Shipping
	Checkout       shopedges.Checkout
	Recommendation shopedges.Recommendation
	Ads            shopedges.Ads

	pages map[string]*template.Template
	files fs.FS
}

// Prepare reads the templates, which are part of the program.
func (f *Frontend) Prepare() error {
	f.pages = map[string]*template.Template{}
	functions := template.FuncMap{"money": money}
	for _, name := range []string{"home", "product", "cart", "order", "trouble"} {
		page, err := template.New("layout.html").Funcs(functions).ParseFS(templates, "templates/layout.html", "templates/parts.html", "templates/"+name+".html")
		if err != nil {
			return err
		}
		f.pages[name] = page
	}
	files, err := fs.Sub(templates, "templates")
	f.files = files
	return err
}

// Routes adds the pages to a mux; requests are counted at the entry.
func (f *Frontend) Routes(mux *http.ServeMux, entry *mesh.Entry) {
	for pattern, page := range map[string]struct {
		name string
		show func(*visit) error
	}{
		"GET /{$}":          {"Home", f.home},
		"GET /product/{id}": {"Product", f.product},
		"GET /cart":         {"ShowCart", f.cart},
		"POST /cart":        {"AddToCart", f.addToCart},
		"POST /cart/empty":  {"EmptyCart", f.emptyCart},
		"POST /currency":    {"SetCurrency", f.setCurrency},
		"POST /checkout":    {"PlaceOrder", f.checkout},
	} {
		mux.HandleFunc(pattern, entry.Count(page.name, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, mostForm)
			v := f.visit(w, r)
			if err := page.show(v); err != nil {
				f.trouble(v, err)
			}
		}))
	}
	mux.Handle("GET /static/", http.FileServerFS(f.files))
}

// show writes a page. It is made as a whole first, so that an error still has its status.
func (f *Frontend) show(v *visit, status int, name string, data any) error {
	var text bytes.Buffer
	if err := f.pages[name].Execute(&text, map[string]any{"Visit": v, "Page": data}); err != nil {
		return fmt.Errorf("page %s: %w", name, err)
	}
	if len(v.missing) > 0 {
		v.answer.Header().Set("X-Degraded", strings.Join(v.missing, ", "))
	}
	v.answer.Header().Set("Content-Type", "text/html; charset=utf-8")
	v.answer.WriteHeader(status)
	_, err := v.answer.Write(text.Bytes())
	if err != nil {
		slog.Debug("the answer was not taken", "error", err)
	}
	return nil
}

// trouble says what went wrong, as the status and on a page that needs no other component.
func (f *Frontend) trouble(v *visit, err error) {
	status, known := statusOf(err), ""
	if status < http.StatusInternalServerError {
		var told *connect.Error
		if known = err.Error(); errors.As(err, &told) {
			known = told.Message()
		}
	} else {
		slog.Warn("no page", "path", v.request.URL.Path, "status", status, "error", err)
	}
	v.CartSize, v.Currencies = 0, nil
	if f.show(v, status, "trouble", map[string]any{"Status": status, "Title": http.StatusText(status), "Reason": known}) != nil {
		http.Error(v.answer, http.StatusText(status), status)
	}
}

// statusOf is the status of HTTP that a component's answer leads to.
func statusOf(err error) int {
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument:
		return http.StatusBadRequest
	case connect.CodeNotFound:
		return http.StatusNotFound
	case connect.CodeFailedPrecondition:
		return http.StatusConflict
	case connect.CodeUnavailable, connect.CodeResourceExhausted:
		return http.StatusServiceUnavailable
	case connect.CodeDeadlineExceeded:
		return http.StatusGatewayTimeout
	default:
		return http.StatusInternalServerError
	}
}

func money(m *shop.Money) string {
	return fmt.Sprintf("%s %d.%02d", m.GetCurrency(), m.GetHundredths()/100, m.GetHundredths()%100)
}

// proposals are what a page can do without.
func (f *Frontend) proposals(ctx context.Context, v *visit, all []*shop.Product, seen ...string) []*shop.Product {
	answer, err := f.Recommendation.Recommend(ctx, &shop.RecommendRequest{ProductIds: seen})
	if err != nil {
		v.misses("recommendation", err)
		return nil
	}
	var products []*shop.Product
	for _, id := range answer.GetProductIds() {
		for _, product := range all {
			if product.GetId() == id {
				products = append(products, product)
			}
		}
	}
	return products
}

// advert is, too.
func (f *Frontend) advert(ctx context.Context, v *visit, categories ...string) *shop.Ad {
	answer, err := f.Ads.GetAds(ctx, &shop.AdsRequest{Categories: categories})
	if err != nil || len(answer.GetAds()) == 0 {
		v.misses("ads", err)
		return nil
	}
	return answer.GetAds()[0]
}

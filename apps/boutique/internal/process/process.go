// Package process makes the components that share a process and gives each its edges.
package process

import (
	"net/http"

	"towtank.example/boutique/internal/components"
	"towtank.example/boutique/internal/frontend"
	"towtank.example/boutique/internal/mesh"
	"towtank.example/boutique/internal/placement"
	"towtank.example/boutique/internal/shop/shopedges"
)

// mostCarts is what one replica keeps: some hundred bytes each.
const mostCarts = 200_000

// builders make a component and let the node host it; the frontend is made with its pages.
var builders = map[string]func(*mesh.Node) error{
	"cartcache": func(n *mesh.Node) error {
		shopedges.HostCartCache(n, components.NewCartCache(mostCarts))
		return nil
	},
	"catalogue": func(n *mesh.Node) error {
		catalogue, err := components.NewCatalogue()
		shopedges.HostCatalogue(n, catalogue)
		return err
	},
	"currency": func(n *mesh.Node) error { shopedges.HostCurrency(n, components.NewCurrency()); return nil },
	"payment":  func(n *mesh.Node) error { shopedges.HostPayment(n, components.NewPayment()); return nil },
	"shipping": func(n *mesh.Node) error { shopedges.HostShipping(n, components.Shipping{}); return nil },
	"email":    func(n *mesh.Node) error { shopedges.HostEmail(n, components.Email{}); return nil },
	"ads":      func(n *mesh.Node) error { shopedges.HostAds(n, components.Ads{}); return nil },
	"cart": func(n *mesh.Node) error {
		shopedges.HostCart(n, components.NewCart(shopedges.ToCartCache(n, "cart")))
		return nil
	},
	"recommendation": func(n *mesh.Node) error {
		shopedges.HostRecommendation(n, components.NewRecommendation(shopedges.ToCatalogue(n, "recommendation")))
		return nil
	},
	"checkout": func(n *mesh.Node) error {
		shopedges.HostCheckout(n, &components.Checkout{
			Catalogue: shopedges.ToCatalogue(n, "checkout"),
			Cart:      shopedges.ToCart(n, "checkout"),
			Currency:  shopedges.ToCurrency(n, "checkout"),
			Payment:   shopedges.ToPayment(n, "checkout"),
			Shipping:  shopedges.ToShipping(n, "checkout"),
			Email:     shopedges.ToEmail(n, "checkout"),
		})
		return nil
	},
}

// Handler makes the hosted components and answers for them: remote calls, pages where the frontend is, /metrics and /health.
func Handler(config mesh.Config, hosted placement.Process) (http.Handler, error) {
	node, mux := mesh.NewNode(config), http.NewServeMux()
	for _, name := range placement.Components {
		if build, ok := builders[name]; ok && hosted.Hosts(name) {
			if err := build(node); err != nil {
				return nil, err
			}
		}
	}
	if hosted.Hosts(placement.Front) {
		front := &frontend.Frontend{
			Catalogue:      shopedges.ToCatalogue(node, placement.Front),
			Cart:           shopedges.ToCart(node, placement.Front),
			Currency:       shopedges.ToCurrency(node, placement.Front),
			Shipping:       shopedges.ToShipping(node, placement.Front),
			Checkout:       shopedges.ToCheckout(node, placement.Front),
			Recommendation: shopedges.ToRecommendation(node, placement.Front),
			Ads:            shopedges.ToAds(node, placement.Front),
		}
		if err := front.Prepare(); err != nil {
			return nil, err
		}
		front.Routes(mux, node.Entry(placement.Front))
	}
	node.Routes(mux)
	return mux, node.Err()
}

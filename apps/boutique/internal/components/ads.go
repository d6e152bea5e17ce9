package components

import (
	"context"

	"towtank.example/boutique/internal/shop"
)

var ads = map[string]*shop.Ad{
	"light":    {Text: "Evenings are longer with a lamp.", ProductId: "lamp"},
	"outdoor":  {Text: "Never lose north again.", ProductId: "compass"},
	"kitchen":  {Text: "Tea in four minutes.", ProductId: "kettle"},
	"home":     {Text: "Know when the tide turns.", ProductId: "clock"},
	"paper":    {Text: "Write it down.", ProductId: "notebook"},
	"clothing": {Text: "Warm ears, clear head.", ProductId: "cap"},
}

// Ads has a line of advertising for some categories.
type Ads struct{}

// GetAds has one for each category that is known, and one for nobody in particular.
func (Ads) GetAds(_ context.Context, in *shop.AdsRequest) (*shop.AdsResponse, error) {
	out := &shop.AdsResponse{}
	for _, category := range in.GetCategories() {
		if ad, ok := ads[category]; ok {
			out.Ads = append(out.Ads, ad)
		}
	}
	if len(out.Ads) == 0 {
		out.Ads = append(out.Ads, ads["outdoor"])
	}
	return out, nil
}

package components

import (
	"context"
	"hash/fnv"
	"slices"

	"towtank.example/boutique/internal/shop"
	"towtank.example/boutique/internal/shop/shopedges"
)

const recommended = 4

// Recommendation proposes other products.
type Recommendation struct{ catalogue shopedges.Catalogue }

// NewRecommendation needs the catalogue.
func NewRecommendation(catalogue shopedges.Catalogue) *Recommendation {
	return &Recommendation{catalogue}
}

// Recommend leaves out what is looked at; the same products lead to the same proposals.
func (r *Recommendation) Recommend(ctx context.Context, in *shop.RecommendRequest) (*shop.RecommendResponse, error) {
	all, err := r.catalogue.ListProducts(ctx, &shop.ListProductsRequest{})
	if err != nil {
		return nil, err
	}
	hash := fnv.New32a()
	for _, id := range in.GetProductIds() {
		hash.Write([]byte(id))
	}
	products, out := all.GetProducts(), &shop.RecommendResponse{}
	for i := range products {
		id := products[(i+int(hash.Sum32()%uint32(len(products))))%len(products)].GetId()
		if len(out.ProductIds) < recommended && !slices.Contains(in.GetProductIds(), id) {
			out.ProductIds = append(out.ProductIds, id)
		}
	}
	return out, nil
}

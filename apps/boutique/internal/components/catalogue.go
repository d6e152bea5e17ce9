// Package components has the shop's components but its pages. Each is written against the interfaces of those that it calls, and cannot
// tell whether they are in its process. What it is given by a call belongs to the caller: it is not changed.
package components

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"

	"connectrpc.com/connect"

	"towtank.example/boutique/internal/shop"
)

//go:embed catalogue.json
var catalogueFile []byte

// Catalogue is what is for sale: a fixed list.
type Catalogue struct {
	products []*shop.Product
	byID     map[string]*shop.Product
}

// NewCatalogue reads the list that is part of the program.
func NewCatalogue() (*Catalogue, error) {
	var entries []struct {
		ID, Name, Text, Colour string
		Hundredths             int64
		Categories             []string
	}
	if err := json.Unmarshal(catalogueFile, &entries); err != nil {
		return nil, fmt.Errorf("catalogue.json: %w", err)
	}
	c := &Catalogue{byID: map[string]*shop.Product{}}
	for _, e := range entries {
		product := &shop.Product{
			Id: e.ID, Name: e.Name, Text: e.Text, Colour: e.Colour, Categories: e.Categories,
			Price: &shop.Money{Currency: baseCurrency, Hundredths: e.Hundredths},
		}
		c.products, c.byID[e.ID] = append(c.products, product), product
	}
	return c, nil
}

// ListProducts has all of them, in a fixed order.
func (c *Catalogue) ListProducts(context.Context, *shop.ListProductsRequest) (*shop.ListProductsResponse, error) {
	return &shop.ListProductsResponse{Products: c.products}, nil
}

// GetProduct finds one; NotFound for an id that is none.
func (c *Catalogue) GetProduct(_ context.Context, in *shop.GetProductRequest) (*shop.Product, error) {
	if product, ok := c.byID[in.GetId()]; ok {
		return product, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no product %q", in.GetId()))
}

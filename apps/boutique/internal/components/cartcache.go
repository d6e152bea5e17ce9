package components

import (
	"container/list"
	"context"
	"sync"

	"towtank.example/boutique/internal/shop"
)

// CartCache keeps carts in memory, those of the users who were there last.
type CartCache struct {
	most  int
	mutex sync.Mutex
	carts map[string]*list.Element
	byUse *list.List // of *userCart, the latest first
}

type userCart struct {
	user  string
	items *shop.Items // never changed once it is here: it may be on its way to somebody
}

// NewCartCache keeps at most so many carts; the one that was used the longest ago goes first.
func NewCartCache(most int) *CartCache {
	return &CartCache{most: most, carts: map[string]*list.Element{}, byUse: list.New()}
}

// Add adds to a product that is there already, or after the others.
func (c *CartCache) Add(_ context.Context, in *shop.AddItemRequest) (*shop.Done, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	added := in.GetItem()
	items, found := make([]*shop.Item, 0, 4), false
	for _, item := range c.use(in.GetUserId()).GetItems() {
		if item.GetProductId() == added.GetProductId() {
			item, found = &shop.Item{ProductId: item.GetProductId(), Quantity: item.GetQuantity() + added.GetQuantity()}, true
		}
		items = append(items, item)
	}
	if !found {
		items = append(items, &shop.Item{ProductId: added.GetProductId(), Quantity: added.GetQuantity()})
	}
	c.put(in.GetUserId(), &shop.Items{Items: items})
	return &shop.Done{}, nil
}

// Get is empty for somebody unknown.
func (c *CartCache) Get(_ context.Context, in *shop.UserRequest) (*shop.Items, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.use(in.GetUserId()), nil
}

// Remove forgets a user's cart.
func (c *CartCache) Remove(_ context.Context, in *shop.UserRequest) (*shop.Done, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if element, ok := c.carts[in.GetUserId()]; ok {
		c.byUse.Remove(element)
		delete(c.carts, in.GetUserId())
	}
	return &shop.Done{}, nil
}

// use finds a user's cart and notes that it was used.
func (c *CartCache) use(user string) *shop.Items {
	element, ok := c.carts[user]
	if !ok {
		return &shop.Items{}
	}
	c.byUse.MoveToFront(element)
	return element.Value.(*userCart).items
}

func (c *CartCache) put(user string, items *shop.Items) {
	if element, ok := c.carts[user]; ok {
		element.Value.(*userCart).items = items
		return
	}
	c.carts[user] = c.byUse.PushFront(&userCart{user, items})
	if c.byUse.Len() > c.most {
		oldest := c.byUse.Back()
		delete(c.carts, c.byUse.Remove(oldest).(*userCart).user)
	}
}

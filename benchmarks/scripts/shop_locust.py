"""The shop journey of benchmarks/scenarios/shop.py for Locust: home once, then tasks by weight, without waits."""

import os
import random
import re

from locust import FastHttpUser, task

PRODUCTS = (
    "0PUK6V6EV0", "1YMWWN1N4O", "2ZYFJ3GM2N", "66VCHSJNUP", "6E92ZMYYFZ", "9SIQT8TOJO", "L9ECAV7KIM",
    "LS4PSXUNUM", "OLJCESPC7Z",
)  # fmt: skip
CURRENCIES = ("EUR", "USD", "JPY", "CAD", "GBP", "TRY")
TOKEN = re.compile(r'name="csrf_token" value="([0-9a-f]+)"')
PRODUCT = re.compile(r'name="product_id" value="([0-9A-Z]+)"')


class Customer(FastHttpUser):
    """A session with its own cookies."""

    def on_start(self) -> None:
        """Open the home page, which sets the cookies."""
        self.client.get("/", name="home")
        if "TOWTANK_ONE" in os.environ:
            self.environment.runner.quit()

    @task(1)
    def home(self) -> None:
        """Open the home page again."""
        self.client.get("/", name="home")

    @task(2)
    def currency(self) -> None:
        """Change the currency."""
        self.client.post("/setCurrency", {"currency_code": random.choice(CURRENCIES)}, name="currency")

    @task(10)
    def product(self) -> None:
        """Look at a product."""
        self.client.get(f"/product/{random.choice(PRODUCTS)}", name="product")

    @task(2)
    def add(self) -> None:
        """Read the form of a product and post it."""
        page = self.client.get(f"/product/{random.choice(PRODUCTS)}", name="product-form").text
        token, product = TOKEN.search(page or ""), PRODUCT.search(page or "")
        if token and product:
            form = {
                "csrf_token": token.group(1),
                "product_id": product.group(1),
                "quantity": random.randint(1, 5),
            }
            self.client.post("/cart", form, name="add-to-cart")

    @task(3)
    def cart(self) -> None:
        """Look at the cart."""
        self.client.get("/cart", name="cart")

    @task(1)
    def checkout(self) -> None:
        """Add something, then post the form of the cart."""
        self.add()
        token = TOKEN.search(self.client.get("/cart", name="cart-form").text or "")
        if token:
            form = {"csrf_token": token.group(1), "email": "someone@example.com"}
            self.client.post("/cart/checkout", form, name="checkout")

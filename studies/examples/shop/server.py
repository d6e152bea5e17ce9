"""A shop that trusts nobody: a session in a cookie, a token in every form, no checkout of an empty cart."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

PRODUCTS = 9
CURRENCIES = ("EUR", "USD", "JPY")
FORM = '<form action="{action}" method="post"><input type="hidden" name="csrf_token" value="{token}"/>{rest}</form>'


class Session:
    """What the shop remembers of a visitor."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(12)
        self.currency = "EUR"
        self.cart: list[int] = []


class Shop(Service):
    """Home, currency, products, cart and checkout."""

    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, Session] = {}

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        known = self.sessions.get(request.cookies.get("session", ""))
        if request.path == "/":
            return self._home(known)
        if known is None:
            return self.refuse("no session", 401)
        if request.method == "POST":
            return self._post(request, known)
        number = request.path.removeprefix("/products/")
        if number.isdecimal() and 1 <= int(number) <= PRODUCTS:
            self.count("product")
            return Answer(_page(f"Product {number}", known, "/cart"))
        if request.path == "/cart":
            self.count("cart")
            return Answer(_page(f"{len(known.cart)} in your cart", known, "/checkout"))
        return self.refuse("no such page", 404)

    def _home(self, known: Session | None) -> Answer:
        self.count("home")
        if known is not None:
            return Answer(_page("Welcome back", known, "/currency"))
        name, session = secrets.token_urlsafe(12), Session()
        self.sessions[name] = session
        cookie = {"set-cookie": f"session={name}; Path=/; HttpOnly"}
        return Answer(_page("Welcome", session, "/currency"), headers=cookie)

    def _post(self, request: Request, session: Session) -> Answer:
        fields = request.form()
        if fields.get("csrf_token") != session.token:
            return self.refuse("form without its token", 403)
        if request.path == "/currency" and fields.get("currency") in CURRENCIES:
            session.currency = fields["currency"]
            self.count("currency")
        elif request.path == "/cart" and fields.get("product", "").isdecimal():
            session.cart.append(int(fields["product"]))
            self.count("added")
        elif request.path == "/checkout":
            if not session.cart:
                return self.refuse("checkout of an empty cart", 409)
            session.cart.clear()
            self.count("checkout")
            return Answer(_page("Thank you", session, "/currency"))
        else:
            return self.refuse("no such form")
        return Answer("", 303, {"location": "/cart"})


def _page(title: str, session: Session, action: str) -> str:
    form = FORM.format(action=action, token=session.token, rest=f"<b>{session.currency}</b>")
    return f"<html><h1>{title}</h1>{form}</html>"


def make(_: argparse.Namespace) -> Service:
    """Make the shop."""
    return Shop()


if __name__ == "__main__":
    serve(make)

"""The shop journey without waits, with cookies, forms and captures: engine, k6 and Locust do the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks import engine, markdown, servers
from benchmarks.measure import Sample, Setting, interleaved
from benchmarks.peers import ClosedLoad, k6, locust, wrk
from benchmarks.peers.base import SCRIPTS

TITLE = "A shop: cookies, forms and captures"
USERS = 64
LIMITS = {"k6": 0.2, "locust": 0.1}
PRODUCTS = (
    "0PUK6V6EV0", "1YMWWN1N4O", "2ZYFJ3GM2N", "66VCHSJNUP", "6E92ZMYYFZ", "9SIQT8TOJO", "L9ECAV7KIM",
    "LS4PSXUNUM", "OLJCESPC7Z",
)  # fmt: skip
TASKS = {"home": 1, "currency": 2, "product": 10, "add": 2, "cart": 3, "checkout": 1}
CANARY_S = 2


def _get(name: str, path: str, *, capture: bool = False) -> dict[str, Any]:
    more = {"capture": {"csrf": {"form": "csrf_token"}}} if capture else {}
    return {"request": {"name": name, "path": path, **more}}


def _post(name: str, path: str, form: dict[str, str]) -> dict[str, Any]:
    return {"request": {"name": name, "method": "POST", "path": path, "body": {"form": form}}}


def journey() -> list[dict[str, Any]]:
    """What scripts/shop.js and scripts/shop_locust.py say too: home once, then tasks by weight."""
    pick = "{{ random_choice([" + ", ".join(f"'{product}'" for product in PRODUCTS) + "]) }}"
    product_form = {
        "csrf_token": "{{ csrf }}",
        "product_id": "{{ product }}",
        "quantity": "{{ random_int(1, 5) }}",
    }

    def add(form: str, post: str) -> list[dict[str, Any]]:
        page = _get(form, f"/product/{pick}", capture=True)
        page["request"]["capture"]["product"] = {"form": "product_id"}
        return [page, _post(post, "/cart", product_form)]

    tasks = {
        "home": [_get("home", "/")],
        "currency": [
            _post(
                "currency", "/setCurrency",
                {"currency_code": "{{ random_choice(['EUR', 'USD', 'JPY', 'CAD', 'GBP', 'TRY']) }}"},
            )
        ],
        "product": [_get("product", f"/product/{pick}")],
        "add": add("product-form", "add-to-cart"),
        "cart": [_get("cart", "/cart")],
        "checkout": [
            # Each step of a workload has a name of its own.
            *add("checkout-product-form", "checkout-add-to-cart"),
            _get("cart-form", "/cart", capture=True),
            _post("checkout", "/cart/checkout", {"csrf_token": "{{ csrf }}", "email": "someone@example.com"}),
        ],
    }  # fmt: skip
    choose = [{"weight": weight, "steps": tasks[name]} for name, weight in TASKS.items()]
    return [{"once": [_get("first-page", "/")]}, {"choose": choose}]


def run(setting: Setting) -> dict[str, Any]:
    """Measure the three in turn; the shop says what each of them did wrong."""
    wrong: dict[str, dict[str, int]] = {}
    mixes: dict[str, dict[str, float]] = {}
    disk: list[float] = []
    with (
        servers.shop(core=setting.server_core) as shop,
        servers.nginx(core=setting.server_core) as quiet,
    ):

        def towtank() -> Sample:
            users = engine.closed(USERS, setting.seconds)
            sample = engine.measure(shop.url, users, core=setting.load_core, steps=journey()).sample()
            disk.append(sample.more["bytes_per_record"])
            return sample

        def canary() -> Sample:
            return wrk.closed(ClosedLoad(quiet.url, USERS, CANARY_S, setting.load_core))

        def watched(name: str, turn: Callable[[], Sample]) -> Callable[[], Sample]:
            def watching() -> Sample:
                shop.clear()
                sample = turn()
                counts = shop.counts()
                total = sum(counts.values())
                refused = wrong.setdefault(name, {})
                for kind in counts.keys() - shop.RIGHT:
                    refused[kind] = refused.get(kind, 0) + counts[kind]
                mixes[name] = {kind: round(n / total, 4) for kind, n in counts.items() if kind in shop.RIGHT}
                return sample

            return watching

        turns: dict[str, Callable[[], Sample]] = {
            engine.NAME: towtank,
            "k6": lambda: k6.script(SCRIPTS / "shop.js", shop.url, USERS, setting.seconds, setting.load_core),
            "locust": lambda: locust.script(
                SCRIPTS / "shop_locust.py", shop.url, USERS, setting.seconds, setting.load_core
            ),
        }
        contenders = {name: watched(name, turn) for name, turn in turns.items()} | {"wrk": canary}
        rounds = interleaved(contenders, setting.rounds, reference="wrk")
    return {
        "users": USERS,
        "seconds": setting.seconds,
        **rounds.facts(setting.seconds, without="wrk"),
        "refused_by_the_shop": wrong,
        "shares_of_requests": mixes,
        "bytes_per_record": disk[-1] if disk else None,
        "ratios": rounds.ratios(engine.NAME, list(LIMITS)),
        "limits": {f"{engine.NAME} ÷ {peer}": limit for peer, limit in LIMITS.items()},
    }


def show(result: dict[str, Any]) -> str:
    """Tables, and what the shop thinks of its customers."""
    refused = "; ".join(
        f"{name}: {', '.join(f'{n:,} {kind}' for kind, n in kinds.items()) or 'none'}"
        for name, kinds in result["refused_by_the_shop"].items()
    )
    tasks = ", ".join(f"{name} {weight}" for name, weight in TASKS.items())
    return f"""{result["users"]} users, a session each, without waits: the home page first (it sets two cookies), then tasks drawn by weight ({tasks}).
`add` reads the hidden token and the product from a form and posts them back; `checkout` does that, then the same with the form of the cart. The server
(engine/examples/shop_server.rs, one thread) refuses whatever comes without its cookie or with another token than it gave. The same journey is in
benchmarks/scripts/shop.js and shop_locust.py. Their own start is taken off. {result["rounds_kept"]} rounds of {result["seconds"]} s; wrk against nginx says which
rounds were noisy.

{markdown.costs(result)}
{markdown.ratios(result)}
Refused by the shop in all rounds: {refused}."""

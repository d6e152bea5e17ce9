"""The `cost` key: price lists and bills of deployments, read and checked before anything is measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from towtank.cost.bill import BillLine
from towtank.cost.money import converted
from towtank.cost.price_list import AnyPriceList, PerInstance, PerRequest, PodRequests
from towtank.cost.spec import Carried, CostFile, CostSpec, DeploymentFile, Instance, PricedDeployment
from towtank.design.bill_file import read_bill
from towtank.design.carried import Named, check_carried, read_carried
from towtank.design.expansion import refuse_expressions
from towtank.design.include import Library
from towtank.design.plan import Treatment
from towtank.design.price_lists import read_price_list
from towtank.design.problems import Place, Problems, listing, nearest
from towtank.design.slo import asked_variables
from towtank.design.tree import Entry, Mapping, Node, Scalar
from towtank.design.validation import validated
from towtank.variables import COST_VARIABLES

KEY = "cost"


def read_cost(
    root: Mapping, library: Library, problems: Problems, treatments: Iterable[Treatment] = ()
) -> CostSpec | None:
    """Read `cost` with all that it names; None where there is none, or something in it is wrong, which is said.

    Parameters
    ----------
    root : Mapping
    library : Library
    problems : Problems
    treatments : iterable of Treatment, optional
        Each must find what its deployment carries, where a search says it.
    """
    node = root.get(KEY)
    if node is None:
        for name, place, where in asked_variables(root):
            if name in COST_VARIABLES:
                problems.add(
                    place, where, f"{name!r} is known only of an experiment with `cost`, and there is none"
                )
        return None
    before = len(problems)
    refuse_expressions(node, (KEY,), problems)
    node = _written_out(node)
    if not isinstance(node, Mapping):
        problems.add(node.place, KEY, "allowed is the name of a price list, or a mapping with `deployments`")
        return None
    file = validated(CostFile, node, (KEY,), root.key_place(KEY), problems)
    if file is None:
        return None
    reader = _Reader(node, file, library, problems)
    deployments = root.get("deployments")
    known = tuple(deployments.entries) if isinstance(deployments, Mapping) else ()
    reader.refuse_unknown(known)
    reader.refuse_two_rates()
    priced = {name: one for name in known if (one := reader.deployment(name)) is not None}
    if len(problems) == before and not priced:
        problems.add(
            root.key_place(KEY),
            KEY,
            "no deployment has a price",
            "write `prices`, or `deployments: {NAME: PRICES}`",
        )
    currency = reader.currency(priced)
    if currency is None or len(problems) > before:
        return None
    spec = CostSpec(
        currency=currency, conversions=file.conversions, per_1000=file.per_1000, deployments=priced
    )
    check_carried(spec, treatments, root.key_place(KEY), problems)
    return spec


def _written_out(node: Node) -> Node:
    """Short forms in full: a name alone is `prices`, at the top and for a deployment."""
    if isinstance(node, Scalar):
        return _prices(node)
    if not isinstance(node, Mapping):
        return node
    of = node.get("deployments")
    if not isinstance(of, Mapping):
        return node
    written = {
        name: Entry(entry.place, _prices(entry.node)) if isinstance(entry.node, Scalar) else entry
        for name, entry in of.entries.items()
    }
    place = node.key_place("deployments")
    return Mapping(node.place, {**node.entries, "deployments": Entry(place, Mapping(of.place, written))})


def _prices(node: Scalar) -> Mapping:
    return Mapping(node.place, {"prices": Entry(node.place, node)})


@dataclass(frozen=True)
class _Spot:
    """Where a price list is named, and where the deployment says more."""

    where: Mapping
    path: str
    beside: Mapping


@dataclass
class _Reader:
    """Reads what deployments name."""

    node: Mapping
    file: CostFile
    library: Library
    problems: Problems
    bills: dict[tuple[BillLine, ...], str] = field(default_factory=dict)
    """Lines of a bill → its file."""

    def refuse_unknown(self, known: tuple[str, ...]) -> None:
        """Say deployments that there are not."""
        of = self.node.get("deployments")
        for name, entry in of.entries.items() if isinstance(of, Mapping) else ():
            if name not in known:
                self.problems.add(
                    entry.place,
                    f"{KEY}.deployments.{name}",
                    f"there is no deployment {name!r}; there are {listing(known)}",
                    nearest(name, known),
                )

    def refuse_two_rates(self) -> None:
        """Say pairs of currencies with more than one rate: they are read both ways, and either could be meant."""
        pairs = [frozenset((one.source, one.target)) for one in self.file.conversions]
        for pair in dict.fromkeys(pair for pair in pairs if pairs.count(pair) > 1):
            self.problems.add(
                self.node.key_place("conversions"), f"{KEY}.conversions",
                f"there is more than one rate between {listing(sorted(pair))}; rates are read both ways",
                "leave one of them",
            )  # fmt: skip

    def deployment(self, name: str) -> PricedDeployment | None:
        """What one deployment costs; None where it has no price, or something is wrong."""
        own = self.file.deployments.get(name)
        of = self.node.get("deployments")
        node = of.get(name) if isinstance(of, Mapping) else None
        says = own if own is not None and (own.prices or own.bill) else self.file
        where = node if says is own and isinstance(node, Mapping) else self.node
        path = f"{KEY}.deployments.{name}" if says is own else KEY
        if says.prices and says.bill:
            self.problems.add(
                where.key_place("bill"),
                f"{path}.bill",
                "prices and a bill cannot hold at once",
                "take one of them out",
            )
            return None
        if says.prices:
            beside = node if isinstance(node, Mapping) else where
            return self._priced(name, says.prices, _Spot(where, path, beside))
        if says.bill:
            bill = self._bill(says.bill, _place(where, "bill"), f"{path}.bill")
            return (
                PricedDeployment(bill=bill, **self._instance(own).model_dump(mode="json")) if bill else None
            )
        return None

    def _priced(self, name: str, list_name: str, spot: _Spot) -> PricedDeployment | None:
        """A deployment with a price list; None where something is wrong."""
        own = self.file.deployments.get(name)
        prices = read_price_list(
            list_name, _place(spot.where, "prices"), f"{spot.path}.prices", self.library, self.problems
        )
        instance = self._instance(own)
        if prices is None or not self._is_complete(prices, instance, spot.where, spot.path):
            return None
        if not self._fails_above(instance, spot.beside, spot.path):
            return None
        carried = self._carried(name, own, instance, spot.beside)
        if carried is None:
            return None
        return PricedDeployment(prices=prices, carried=carried, **instance.model_dump(mode="json"))

    def _instance(self, own: DeploymentFile | None) -> Instance:
        """What is known of instances: the deployment's own words, then those that hold for all."""
        keys = tuple(Instance.model_fields)
        given = own.model_fields_set if own is not None else frozenset()
        found = {key: getattr(own if key in given else self.file, key) for key in keys}
        return Instance.model_construct(**found)

    def _carried(
        self, name: str, own: DeploymentFile | None, instance: Instance, where: Mapping
    ) -> tuple[Carried, ...] | None:
        """What a search found that one instance carries; empty where none is named, None where it is wrong."""
        says = own if own is not None and own.capacity else self.file
        if says.capacity is None:
            return ()
        path = f"{KEY}.deployments.{name}.capacity" if says is own else f"{KEY}.capacity"
        place = _place(where if says is own else self.node, "capacity")
        if instance.carries is not None:
            self.problems.add(
                place, path, "`carries` and `capacity` both say what one carries", "take one of them out"
            )
            return None
        searched = (own.capacity_of if own is not None else None) or self.file.capacity_of or name
        return read_carried(Named(says.capacity, searched, place, path), self.library, self.problems)

    def _is_complete(self, prices: AnyPriceList, instance: Instance, where: Mapping, path: str) -> bool:
        """Whether all is said that the price list needs and no telemetry knows."""
        missing = []
        if isinstance(prices, PerRequest | PerInstance):
            if prices.vcpu and instance.vcpu is None:
                missing.append("vcpu")
            if prices.memory and instance.memory is None:
                missing.append("memory")
        elif isinstance(prices, PodRequests) and prices.vcpu_step and instance.vcpu is None:
            missing.append("vcpu")  # what all pods request together says nothing of how each is rounded up
        for key in missing:
            self.problems.add(
                where.key_place("prices"),
                f"{path}.{key}",
                f"the price list is by {prices.model}, and the key {key!r} is missing here",
                "write `vcpu` and `memory` of one instance, such as {vcpu: 1, memory: 512MiB}",
            )
        return not missing

    def _fails_above(self, instance: Instance, where: Mapping, path: str) -> bool:
        """Whether `fails` is a load above `carries`."""
        fails, carries = instance.fails, instance.carries
        if fails is None or (carries is not None and fails > carries):
            return True
        than = "the key 'carries' is missing" if carries is None else f"`carries` is {carries:g}/s"
        self.problems.add(
            where.key_place("fails"), f"{path}.fails", f"found {fails:g}/s, and {than}; allowed is more than `carries`",
            "write the highest load that held as `carries`, and the lowest above it that did not as `fails`",
        )  # fmt: skip
        return False

    def _bill(self, name: str, place: Place, path: str) -> tuple[BillLine, ...]:
        real = self.library.find(name, place, path)
        if real is None:
            return ()
        lines, shown_as = read_bill(real, self.library.shown(real), self.problems), self.library.shown(real)
        other = self.bills.setdefault(lines, shown_as) if lines else shown_as
        if other != shown_as:
            self.problems.add(
                place, path, f"{shown_as} has the same lines as {other}; would they be one bill, or two?",
                f"name {other} here as well if it is one, else let the names of lines differ",
            )  # fmt: skip
        return lines

    def currency(self, priced: dict[str, PricedDeployment]) -> str | None:
        """The one currency of the report; None where it is not clear, which is said."""
        lists = {name: one.prices for name, one in priced.items() if one.prices is not None}
        found = tuple(dict.fromkeys(prices.currency for prices in lists.values()))
        has_bill = any(one.prices is None for one in priced.values())
        report = self.file.currency or (found[0] if len(found) == 1 and not has_bill else None)
        if report is None:
            if priced:
                what = "a bill does not say its currency" if has_bill else f"prices are in {listing(found)}"
                self.problems.add(
                    self.node.place,
                    f"{KEY}.currency",
                    f"{what}; a report has one currency",
                    "write `currency: EUR`",
                )
            return None
        conversions = [one.conversion for one in self.file.conversions]
        for currency in found:
            try:
                converted(1.0, currency, report, conversions)
            except ValueError as error:
                self.problems.add(self.node.key_place("currency"), f"{KEY}.currency", str(error))
        return report


def _place(node: Mapping, key: str) -> Place:
    found = node.get(key)
    return found.place if found is not None else node.place

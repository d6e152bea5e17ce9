"""What runs cost: price lists and the rules that turn used quantities into money. Pure functions, no files."""

from towtank.cost.break_even import Crossing, Line, crossings, sentence
from towtank.cost.busy import busy_seconds
from towtank.cost.money import CURRENCIES, Conversion, converted
from towtank.cost.price_list import AnyPriceList
from towtank.cost.rules import CannotPriceError, Item, Usage, priced, total

__all__ = [
    "CURRENCIES",
    "AnyPriceList",
    "CannotPriceError",
    "Conversion",
    "Crossing",
    "Item",
    "Line",
    "Usage",
    "busy_seconds",
    "converted",
    "crossings",
    "priced",
    "sentence",
    "total",
]

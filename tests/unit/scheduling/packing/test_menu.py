# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from karpenter.model.catalogue import Catalogue
from karpenter.scheduling.packing import menu as menus
from karpenter.scheduling.packing.menu import Menu, holding, menu_for
from tests.unit.scheduling.packing.builders import RESOURCES, machine

_NOTHING = (0, 0, 0)


def _menu(catalogue: Catalogue, *masks: int, limited: tuple[str, ...] = ()) -> Menu:
    overheads = ((catalogue.everything, _NOTHING),)
    return menu_for(catalogue, RESOURCES, overheads, masks or (catalogue.everything,), limited)


def _names(catalogue: Catalogue, menu: Menu) -> list[str]:
    return [catalogue.type_at(position).name for position in menu.positions]


def test_a_dearer_offering_that_holds_no_more_is_left_out() -> None:
    catalogue = Catalogue(
        [
            machine("large", cpu=8, price=1.0),
            machine("small", cpu=4, price=1.5),
            machine("huge", cpu=16, price=2.0),
        ]
    )

    menu = _menu(catalogue)

    assert _names(catalogue, menu) == ["large", "huge"]


def test_of_equal_offerings_the_first_stays() -> None:
    catalogue = Catalogue([machine("b"), machine("a", zones=("x", "y"))])

    menu = _menu(catalogue)

    assert _names(catalogue, menu) == ["a"]
    assert catalogue.offerings[menu.positions[0]].zone == "x"


def test_an_offering_that_admits_other_pods_stays() -> None:
    catalogue = Catalogue([machine("cheap", price=1.0), machine("dear", price=2.0)])
    dear = 0b10

    menu = _menu(catalogue, catalogue.everything, dear)

    assert _names(catalogue, menu) == ["cheap", "dear"]
    assert menu.admitting == [0b11, 0b10]


def test_an_offering_with_less_of_what_is_limited_stays() -> None:
    catalogue = Catalogue([machine("wide", cpu=8, price=1.0), machine("narrow", cpu=4, price=2.0)])

    assert _names(catalogue, _menu(catalogue)) == ["wide"]
    assert _names(catalogue, _menu(catalogue, limited=("cpu",))) == ["wide", "narrow"]


def test_an_offering_too_small_for_its_daemons_is_left_out() -> None:
    catalogue = Catalogue([machine("tiny", cpu=1, price=0.1), machine("fine", cpu=4, price=1.0)])

    menu = menu_for(catalogue, RESOURCES, ((catalogue.everything, (2, 0, 1)),), (catalogue.everything,))

    assert _names(catalogue, menu) == ["fine"]
    assert menu.capacities == [(2, 8, 9)]


def test_an_offering_that_no_overhead_covers_is_not_sold() -> None:
    catalogue = Catalogue([machine("a", price=1.0), machine("b", cpu=8, price=2.0)])

    menu = menu_for(catalogue, RESOURCES, ((0b10, _NOTHING),), (catalogue.everything,))

    assert _names(catalogue, menu) == ["b"]


def test_the_lowest_bit_of_what_holds_is_the_cheapest() -> None:
    catalogue = Catalogue([machine(f"m{size}", cpu=size, memory=size, price=size) for size in (1, 2, 4)])

    menu = _menu(catalogue)

    assert menu.holds((0, 0, 0)) == 0b111
    assert menu.holds((2, 1, 1)) == 0b110
    assert menu.holds((3, 3, 3)) == 0b100
    assert menu.holds((5, 1, 1)) == 0


def test_a_reordered_menu_keeps_what_each_option_is() -> None:
    catalogue = Catalogue([machine("a", cpu=2, price=1.0), machine("b", cpu=4, price=2.0)])
    menu = _menu(catalogue, catalogue.everything, 0b10)

    turned = menu.reordered([1, 0])

    assert _names(catalogue, turned) == ["b", "a"]
    assert turned.prices == [2.0, 1.0]
    assert turned.admitting == [0b11, 0b01]
    assert turned.holds((3, 0, 0)) == 0b01


def test_menus_are_kept_with_their_catalogue() -> None:
    catalogue = Catalogue([machine("a")])

    assert _menu(catalogue) is _menu(catalogue)
    assert _menu(catalogue) is not _menu(Catalogue([machine("a")]))


def test_old_menus_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(menus, "_KEPT", 2)
    catalogue = Catalogue([machine("a"), machine("b", cpu=9, price=3.0)])
    first = _menu(catalogue)
    _menu(catalogue, 0b01)

    _menu(catalogue, 0b10)

    assert _menu(catalogue) is not first


def test_holding_adds_the_daemons_of_each_part() -> None:
    catalogue = Catalogue([machine("a", cpu=4, price=1.0), machine("b", cpu=4, price=2.0)])
    overheads = ((0b01, (1, 0, 1)), (0b10, (2, 0, 1)))

    assert holding(catalogue, RESOURCES, overheads, (3, 0, 1), catalogue.everything) == 0b01
    assert holding(catalogue, RESOURCES, overheads, (2, 0, 1), catalogue.everything) == 0b11
    assert holding(catalogue, RESOURCES, overheads, (2, 0, 1), 0b10) == 0b10


def test_the_most_of_the_first_resource_is_looked_up_among_the_options_given() -> None:
    catalogue = Catalogue([machine(f"m{size}", cpu=size, memory=size, price=size) for size in (1, 2, 4)])

    menu = _menu(catalogue)

    assert menu.most(0b111) == 4
    assert menu.most(0b011) == 2
    assert menu.most(0b001) == 1

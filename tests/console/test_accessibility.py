"""axe finds nothing on any screen in either theme; the main tasks are done by keyboard alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.console.browsing import Visit, visit
from tests.console.test_screens import SCREENS
from tests.servers.http.serving import ServedNode
from tools.toolchains.chromium import have_axe
from tools.toolchains.registries import MissingToolError

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

RULES = "['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']"


@pytest.fixture(scope="module")
def axe() -> str:
    try:
        path: Path = have_axe()
    except MissingToolError as reason:
        pytest.skip(str(reason))
    return path.read_text()


def violations(page: Page, axe: str) -> list[str]:
    """What axe finds; its script is evaluated, because the page's policy lets no other script in."""
    page.evaluate(f"() => {{ {axe}; }}")
    found = page.evaluate(f"() => axe.run({{ runOnly: {RULES} }})")
    return [
        f"{one['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_on_any_screen(browser: Browser, node: ServedNode, axe: str, theme: str) -> None:
    found: dict[str, list[str]] = {}
    with visit(browser, node, theme, is_checked=False) as visited:  # axe puts styles into the page.
        for screen, text in SCREENS.items():
            page = visited.open(screen)
            page.get_by_text(text, exact=False).first.wait_for()
            if wrong := violations(page, axe):
                found[screen] = wrong

    assert found == {}


@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_windows(browser: Browser, node: ServedNode, axe: str, theme: str) -> None:
    found: dict[str, list[str]] = {}
    windows = {
        "topics": "New topic",
        "topics/orders/records": "Produce",
        "groups/billing": "Reset offsets",
        "topics/orders.dlq/dead-letters": "Redrive …",
        "security": "New rule",
        "clients": "New subscription",
        "edge": "Place a node",
    }
    with visit(browser, node, theme, is_checked=False) as visited:  # axe puts styles into the page.
        for screen, button in windows.items():
            page = visited.open(screen)
            page.get_by_role("button", name=button).first.click()
            page.locator("dialog[open] button").last.wait_for()
            if wrong := violations(page, axe):
                found[f"{screen}: {button}"] = wrong
            page.keyboard.press("Escape")
            page.locator("dialog[open]").wait_for(state="hidden")

    assert found == {}


def until(page: Page, name: str, key: str = "Tab") -> None:
    """Press a key until the focus is on something with this name."""
    for _ in range(80):
        focused = page.evaluate(
            "(() => { const one = document.activeElement; "
            "if (!one.matches('a, button, input, select, textarea')) return '';"
            "return one.getAttribute('aria-label') || one.innerText || one.name || ''; })()"
        )
        if name in focused:
            return
        page.keyboard.press(key)
    raise AssertionError(f"the keyboard does not reach {name!r}")


def test_a_topic_is_created_by_keyboard_alone(console: Visit, node: ServedNode) -> None:
    page = console.open("overview")
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.get_by_role("heading", name="Topics").wait_for()
    page.keyboard.press("n")
    page.locator("dialog[open] [name=name]:focus").wait_for()
    page.keyboard.type("by-keyboard")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="by-keyboard").wait_for()

    assert node.get("/api/v1/topics/by-keyboard").status == 200


def test_records_are_searched_by_keyboard_alone(console: Visit) -> None:
    page = console.open("topics/orders/records")
    page.keyboard.press("/")
    page.keyboard.type("json.amount == 123")
    page.keyboard.press("Enter")
    page.get_by_text("1 found among").wait_for()
    until(page, "Record ")
    page.keyboard.press("Enter")
    page.locator("dialog[open] pre").wait_for()
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="hidden")


def test_a_record_is_produced_by_keyboard_alone(console: Visit, node: ServedNode) -> None:
    node.post("/api/v1/topics", {"name": "typed", "partitions": 1})
    page = console.open("topics/typed/records")
    page.keyboard.press("n")
    page.locator("dialog[open] [name=key]:focus").wait_for()
    page.keyboard.type("the key")
    until(page, "value")
    page.keyboard.type("the value")
    until(page, "Produce")
    page.keyboard.press("Enter")
    page.get_by_text("Written: partition 0, offset 0").wait_for()

    found = node.get("/consume?topic=typed").json["messages"]
    assert [(one["key"], one["value"]) for one in found] == [("the key", "the value")]


def test_offsets_are_reset_by_keyboard_alone(console: Visit, node: ServedNode) -> None:
    offsets = [{"topic": "orders", "partition": 0, "offset": 9}]
    node.post("/api/v1/groups/typing/offsets", {"offsets": offsets})
    page = console.open("groups/typing")
    page.keyboard.press("n")
    page.locator("dialog[open]").wait_for()
    until(page, "Preview")
    page.keyboard.press("Enter")
    page.get_by_text("9 again").wait_for()
    until(page, "Reset offsets")
    page.keyboard.press("Enter")
    page.get_by_text("were reset").wait_for()

    assert {one["offset"] for one in node.get("/api/v1/groups/typing/offsets").json["offsets"]} == {0}


def test_the_theme_and_the_keys_are_changed_by_keyboard_alone(console: Visit) -> None:
    page = console.open("health")
    page.keyboard.press("m")
    page.get_by_role("button", name="Theme: light").wait_for()
    page.keyboard.press("?")
    page.get_by_role("heading", name="Keys").wait_for()
    until(page, "Single keys")
    page.keyboard.press("Escape")
    page.locator("dialog[open]").wait_for(state="hidden")

"""The page in a real browser (headless Chromium): it works from disk, alone, for a keyboard, a phone and a dark room."""

import re
import shutil
from urllib.parse import parse_qs

import pytest
from click.testing import CliRunner
from report_study import HOSTILE, HUGE, make_episodes, make_study, options

from pipeline.records.tables import read_rows
from pipeline.report.command import report

pytestmark = pytest.mark.slow
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
READY = "#viewer[data-ready]"


@pytest.fixture(scope="module")
def browser():
    driver = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (pip install '.[dev]')")
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"no Chromium here (looked for {', '.join(BROWSERS)}); on Debian: apt-get install chromium")
    with driver.sync_playwright() as playwright:
        # In a container Chromium's own sandbox has no rights to start; the page is ours.
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("browser")
    paths = make_episodes(folder, make_study(folder))
    result = CliRunner().invoke(report, options(paths, folder / "report/index.html"))
    assert result.exit_code == 0, result.output
    return folder / "report/index.html", read_rows(paths["pairs"])


@pytest.fixture
def page(browser, made):
    """The page, open and ready; at the end nothing may have been complained about or asked for."""
    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    said, asked = [], []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(made[0].as_uri())
    opened.wait_for_selector(READY)
    yield opened
    assert said == []
    assert {url.split("#")[0] for url in asked} == {made[0].as_uri()}
    opened.close()


def matches(page):
    return int(re.match(r"[\d,]+", page.locator(".matches").inner_text())[0].replace(",", ""))


def listed(page):
    return page.locator("[name=pick] option").all_inner_texts()


def test_all_branches_are_there_and_filters_count_as_the_pairs_do(page, made):
    pairs = made[1]
    assert matches(page) == len(pairs)
    page.get_by_role("button", name="Harms only").click()
    page.wait_for_function(
        "document.querySelector('.matches').textContent.length > 0 && location.hash.includes('harm')"
    )
    assert matches(page) == sum(pair["cell"] == "harm" for pair in pairs)
    assert all(text.startswith("harm ·") for text in listed(page))
    page.get_by_role("button", name="Rescues only").click()
    page.wait_for_function("location.hash.includes('rescue')")
    assert matches(page) == sum(pair["cell"] == "rescue" for pair in pairs)
    page.locator("[name=condition]").select_option("stale-2")
    page.locator("[name=delay]").select_option("1")
    page.locator("[name=operator]").select_option("refresh")
    page.locator("[name=cohort]").select_option("main")
    wanted = {"cell": "rescue", "condition": "stale-2", "delay": 1, "operator": "refresh", "cohort": "main"}
    chosen = [pair for pair in pairs if wanted.items() <= pair.items()]
    assert chosen
    assert matches(page) == len(chosen)
    page.locator("[name=population]").select_option("factual-success")
    assert matches(page) == sum(pair["factual_success"] for pair in chosen)
    page.locator("[name=task]").fill("no such task")
    assert matches(page) == 0
    assert page.locator(".episode").inner_text() == ""


def test_router_fired_filter_shows_the_branches_that_the_answers_name(page, made):
    page.get_by_role("button", name="Router fired").click()
    page.wait_for_function("location.hash.includes('fired')")
    assert 0 < matches(page) < len(made[1])
    assert all("refresh · router fires" in text for text in listed(page))
    page.get_by_text("What the router saw").click()
    assert page.locator(".episode td", has_text="intervenes").count() == 1


def test_every_linked_count_of_the_tables_leads_to_so_many_episodes(page, made):
    links = page.locator("a.episodes").evaluate_all("all => all.map(a => [a.getAttribute('href'), a.textContent])")
    tables = {"headline": links[:6], "all": links[6::37]}
    assert len(links) > 100
    for href, text in [*tables["headline"], *tables["all"]]:
        page.evaluate("hash => { location.hash = hash }", href)
        page.wait_for_function("hash => location.hash === hash", arg=href)
        page.wait_for_timeout(30)
        asked = {name: values[0] for name, values in parse_qs(href.split("?")[1]).items()}
        count = int(text.split("/")[0])
        if "fired" not in asked:
            assert matches(page) == count, (href, text)
        else:
            assert matches(page) > 0


def test_a_click_on_a_cell_brings_the_viewer_into_view_and_the_keyboard_walks_on(page):
    link = page.locator("#answer a.episodes").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.activeElement.name === 'pick'")
    assert page.locator("[name=pick]").is_visible()
    top = page.locator("#viewer").evaluate("it => it.getBoundingClientRect().top")
    assert -5 < top < 300
    page.evaluate("location.hash = '#forks?cell=rescue'")
    page.wait_for_function("location.hash === '#forks?cell=rescue'")
    page.wait_for_timeout(50)
    first = page.locator(".episode h3").inner_text()
    unit = page.locator(".episode .unit").inner_text()
    page.keyboard.press("ArrowDown")
    assert (page.locator(".episode h3").inner_text(), page.locator(".episode .unit").inner_text()) != (first, unit)
    page.keyboard.press("ArrowUp")
    assert page.locator(".episode .unit").inner_text() == unit
    page.locator("button.next").focus()
    page.keyboard.press("Enter")
    assert page.locator("[name=pick]").evaluate("it => it.selectedIndex") == 1
    # What is picked stands in the address, so it can be sent to someone.
    address = page.evaluate("location.href")
    picked = page.locator(".episode .unit").inner_text()
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(READY)
    assert page.locator(".episode .unit").inner_text() == picked


def test_a_rescue_shows_the_alteration_the_fork_the_parting_and_both_ends(page):
    page.evaluate("location.hash = '#forks?cell=rescue&condition=missing&operator=refresh&delay=1'")
    page.wait_for_function("location.hash.includes('missing')")
    page.wait_for_timeout(50)
    altered = page.locator(".episode .altered")
    assert altered.count() == 1
    assert altered.locator(".seen").inner_text() == "Observation unavailable."
    assert altered.locator(".real").inner_text() == "On the shelf 3 you see a cup 3."
    assert "Fork: 1 action after the reply to action 3" in page.locator(".mark.fork").inner_text()
    assert page.locator(".step.recover").inner_text().split("\n")[1:] == ["look", "You see nothing."]
    assert page.locator(".mark.part").inner_text() == "≠ Here they part"
    assert page.locator(".end").all_inner_texts() == [
        "Branch ends: ✓ success (success)",
        "Trunk ends: ✗ failure (gave-up)",
    ]
    shared = page.locator(".prefix .step.act .said").all_inner_texts()
    assert shared == [f"go to shelf {number}" for number in (1, 2, 3, 4)]


def test_what_was_withheld_and_what_never_parts_is_said(page):
    page.evaluate("location.hash = '#forks?cell=kept-success&condition=clean&operator=content-ablated&delay=0'")
    page.wait_for_timeout(80)
    assert page.locator(".step.recover .seen").inner_text() == "[withheld]"
    assert page.locator(".step.recover .real").inner_text() == "You see nothing."
    page.evaluate("location.hash = '#forks?operator=none&delay=0'")
    page.wait_for_timeout(80)
    assert "They never part" in page.locator(".mark.part").inner_text()


def test_a_branch_of_a_trunk_that_had_ended_says_so(page, made):
    gone = next(pair for pair in made[1] if pair["operator"] == "refresh" and not pair["intervened"])
    page.evaluate(
        f"location.hash = '#forks?operator=refresh&delay=4&condition={gone['condition']}&task={gone['task']}'"
    )
    page.wait_for_timeout(80)
    assert "had ended before delay 4" in page.locator(".mark.fork").inner_text()
    assert page.locator(".row.heads").count() == 0


def test_hostile_text_stays_text(page):
    page.evaluate("location.hash = '#forks?cell=harm'")
    page.wait_for_timeout(80)
    thought = page.locator(".step.think .said").first
    assert thought.evaluate("it => it.children.length") == 0
    text = thought.evaluate("it => it.textContent")
    assert HOSTILE in text
    assert HUGE[:2000] in text
    assert "more characters]" in text
    assert thought.get_attribute("dir") == "auto"
    assert page.evaluate("document.querySelectorAll('.episode img, .episode script').length") == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 390, 768, 1280])
def test_nothing_overflows_and_the_scheme_is_followed(browser, made, width, scheme):
    opened = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    opened.goto(made[0].as_uri() + "#forks?cell=harm")
    opened.wait_for_selector(READY)
    opened.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    paper = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", paper)[:3])) / 3
    assert brightness > 200 if scheme == "light" else brightness < 60
    opened.close()


def test_text_can_be_read_in_both_schemes(browser, made):
    """Contrast of body text, muted text, links and outcome colours on the page's ground is at least 4.5 (WCAG AA)."""
    script = """() => {
      const light = (c) => { const v = c.match(/[\\d.]+/g).slice(0, 3).map((x) => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4 });
        return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2] };
      const ground = light(getComputedStyle(document.body).backgroundColor);
      return ['body', '.note', 'a.episodes', '.end.good', '.end.bad', '.altered strong'].map((name) => {
        const ink = light(getComputedStyle(document.querySelector(name)).color);
        return [name, (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05)] }) }"""
    for scheme in ("light", "dark"):
        opened = browser.new_page(color_scheme=scheme)
        opened.goto(made[0].as_uri() + "#forks?cell=rescue&condition=missing")
        opened.wait_for_selector(READY)
        weak = {name: ratio for name, ratio in opened.evaluate(script) if ratio < 4.5}
        assert not weak, scheme
        opened.close()


def test_it_prints_without_its_controls(browser, made):
    opened = browser.new_page()
    opened.goto(made[0].as_uri())
    opened.wait_for_selector(READY)
    opened.emulate_media(media="print")
    assert not opened.locator(".filters").is_visible()
    assert opened.pdf()[:4] == b"%PDF"
    opened.close()

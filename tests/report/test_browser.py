"""The pages in a real browser: every part is there, works, agrees with the reader, and asks nothing of the network."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import smalti
from smalti import jobs
from smalti.report import write_report
from tests.files import written

ATTACK = "</script><script>document.title='stolen'</script><img src=x onerror=alert(1)>"


def wide_table(columns: int, rows: int = 240) -> pa.Table:
    kinds: list[Callable[[int], pa.Array]] = [
        lambda i: pa.array([(i + 7) * j % 9973 for j in range(rows)]),
        lambda _: pa.array(["same"] * rows),
        lambda _: pa.array([("red", "green", None)[j % 3] for j in range(rows)]),
        lambda _: pa.nulls(rows, pa.string()),
    ]
    made = {f"sensor_{i:05d}": kinds[i % 4](i % 40) for i in range(columns)}
    tags = pa.array([[j, None] if j % 2 else None for j in range(rows)], pa.list_(pa.int32()))
    return pa.table({"id": pa.array(range(rows)), ATTACK: pa.array(range(rows)), "tags": tags, **made})


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Pages of a wide file and of a narrow one whose buckets are paged, and of a profile of the wide one."""
    directory = tmp_path_factory.mktemp("report")
    data = {
        "wide": written(wide_table(10_000), row_group_max_rows=80, stats_columns=["id", "sensor_00000"]),
        "paged": written(
            wide_table(60), num_buckets=6, row_group_max_rows=100, page_size_threshold=0, stats_columns="all"
        ),
    }
    for name, content in data.items():
        (directory / f"{name}.mosaic").write_bytes(content)
        write_report(directory / f"{name}.mosaic", directory / f"{name}.html")
    jobs.profile(directory / "wide.mosaic", html=directory / "profile.html")
    return {name: directory / f"{name}.html" for name in (*data, "profile")}


@pytest.fixture
def load(browser: Any, files: dict[str, Path]) -> Callable[[str], Any]:
    def open_page(name: str) -> Any:
        browser.get_log("browser")
        browser.get_log("performance")
        browser.set_window_size(1500, 1300)
        browser.get(files[name].as_uri())
        wait(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "yes")
        return browser

    return open_page


def wait(condition: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def text(page: Any, selector: str) -> str:
    return str(page.execute_script("return document.querySelector(arguments[0]).innerText", selector))


def names(page: Any) -> list[str]:
    return list(
        page.execute_script("return [...document.querySelectorAll('#table-body .name')].map((e) => e.textContent)")
    )


def search(page: Any, words: str, found: str) -> None:
    box = page.find_element("css selector", "#search")
    box.clear()
    box.send_keys(words)
    wait(lambda: text(page, "#found").startswith(found))


def tick(page: Any, name: str) -> None:
    search(page, name, "1 ")
    wait(lambda: names(page) == [name])
    page.execute_script("document.querySelector('#table-body input').click()")


@pytest.mark.parametrize("name", ["wide", "paged"])
def test_all_parts_are_there(load: Callable[[str], Any], files: dict[str, Path], name: str) -> None:
    page = load(name)
    with smalti.open(files[name].with_suffix(".mosaic")) as file:
        facts = text(page, "#facts")
        for count in (file.num_rows, file.num_columns, file.num_row_groups, file.num_buckets):
            assert f"{count:,}" in facts
        blocks = int(page.execute_script("return document.querySelector('#map').dataset.blocks"))
        assert blocks == file.num_row_groups * file.num_buckets
    for encoding in ("PLAIN", "CONST", "DICT", "ALL_NULL"):
        assert encoding in text(page, "#legend")
    for part in ("buckets", "schema block", "index", "footer"):
        assert part in text(page, "#tail")
    painted = page.execute_script(
        "const c = document.querySelector('#map');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "const seen = new Set(); for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) "
        "seen.add(`${d[i]},${d[i + 1]},${d[i + 2]}`); return seen.size"
    )
    assert painted >= 4


@pytest.mark.parametrize("name", ["wide", "profile"])
def test_nothing_is_fetched_and_nothing_goes_wrong(
    load: Callable[[str], Any], files: dict[str, Path], name: str
) -> None:
    page = load(name)
    assert [entry for entry in page.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    messages = [json.loads(entry["message"])["message"] for entry in page.get_log("performance")]
    asked = {m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"}
    assert asked == {files[name].as_uri()}


@pytest.mark.parametrize("name", ["wide", "profile"])
def test_the_policy_forbids_the_network(load: Callable[[str], Any], name: str) -> None:
    """Even a script inside the page cannot fetch anything."""
    page = load(name)
    outcome = page.execute_async_script(
        "const done = arguments[0]; let blocked = '';"
        "document.addEventListener('securitypolicyviolation', (event) => { blocked = event.effectiveDirective });"
        "fetch('http://127.0.0.1:9/').then(() => done('fetched'), () => setTimeout(() => done(blocked), 50))"
    )
    assert outcome == "connect-src"


def test_a_hostile_name_is_only_a_name(load: Callable[[str], Any]) -> None:
    page = load("paged")
    assert page.title.startswith("paged.mosaic")
    search(page, "stolen", "1 of 63")
    assert names(page) == [ATTACK]


def test_search_sort_and_filter_10_000_columns(load: Callable[[str], Any]) -> None:
    page = load("wide")
    assert text(page, "#found") == "10,003 of 10,003"
    assert len(names(page)) < 60  # only what is in sight exists
    search(page, "sensor_*77", "100 ")
    assert all(name.endswith("77") for name in names(page))
    search(page, "09999", "1 ")
    search(page, "nothing like it", "0 ")
    page.find_element("css selector", "#search").clear()
    page.find_element("css selector", "#search").send_keys("sensor")
    page.execute_script(
        "const s = document.querySelector('#only'); s.value = '3'; s.dispatchEvent(new Event('change'))"
    )
    wait(lambda: text(page, "#found").startswith("2,500 "))


@pytest.mark.parametrize(("name", "place"), [("wide", 2), ("profile", 0)])
def test_scrolling_draws_what_is_in_sight(load: Callable[[str], Any], name: str, place: int) -> None:
    """Responsive by construction, whatever else this machine does: at no step are there more than some dozen rows."""
    page = load(name)
    most = page.execute_async_script(
        "const done = arguments[0], table = document.querySelector('#table'); let step = 0, most = 0;"
        "const next = () => { most = Math.max(most, document.querySelectorAll('#table-body .row').length);"
        "step += 1; table.scrollTop = step * table.scrollHeight / 20;"
        "if (step < 20) requestAnimationFrame(next);"
        "else requestAnimationFrame(() => requestAnimationFrame(() => done(most))) }; next();"
    )
    assert 10 < most < 100
    wait(lambda: cells(page, place)[-1] == "sensor_09999")


def cells(page: Any, place: int) -> list[str]:
    """The texts of one column of the rows that are drawn, from the top."""
    script = (
        "return [...document.querySelectorAll('#table-body .row')].map((row) => row.children[arguments[0]].innerText)"
    )
    return list(page.execute_script(script, place))


def test_a_profile_of_10_000_columns(load: Callable[[str], Any]) -> None:
    page = load("profile")
    facts = text(page, "#facts")
    for fact in ("240", "10,003", "1", "MiB"):
        assert fact in facts
    for encoding in ("PLAIN", "CONST", "DICT", "ALL_NULL"):
        assert encoding in text(page, "#legend")
    assert text(page, "#found") == "10,003 of 10,003"
    assert cells(page, 0)[:3] == ["id", ATTACK, "tags"]
    search(page, "sensor_*77", "100 ")  # names by glob
    search(page, "list<", "1 ")  # types too
    assert cells(page, 0) == ["tags"]
    search(page, "sensor_0000", "10 ")
    assert [cells(page, 0)[2], *(cells(page, place)[2] for place in (2, 3, 4, 5, 6))] == [
        "sensor_00002", "80", "~2", "green", "red", "DICT 3",
    ]  # fmt: skip
    nulls = page.find_elements("css selector", "#table-head .row > *")[2]
    nulls.click()  # the largest first, and the other way round with the keyboard
    wait(lambda: cells(page, 2)[0] == "240")
    nulls.send_keys("\n")
    wait(lambda: cells(page, 2)[0] == "0")
    assert nulls.get_attribute("aria-sort") == "ascending"


def test_columns_of_unknown_values_sort_last(load: Callable[[str], Any]) -> None:
    page = load("profile")
    search(page, "sensor_0000", "10 ")
    for _ in ("up", "down"):
        page.find_elements("css selector", "#table-head .row > *")[4].click()
        assert cells(page, 4)[-2:] == ["", ""]
        assert "" not in cells(page, 4)[:8]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_share_the_colours_of_encodings(load: Callable[[str], Any], theme: str) -> None:
    """The order of the legend is that of the format's codes."""

    def colours(name: str) -> list[str]:
        page = load(name)
        page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
        script = (
            "return [...document.querySelectorAll('#legend .swatch')].map((e) => getComputedStyle(e).backgroundColor)"
        )
        return list(page.execute_script(script))

    assert colours("wide") == colours("profile")
    assert len(set(colours("profile"))) == 4


@pytest.mark.parametrize("name", ["wide", "paged"])
@pytest.mark.parametrize("columns", [["id"], ["tags"], ["id", "sensor_00007", "sensor_00050", "tags"]])
def test_cost_of_a_projection_is_what_the_reader_reads(
    load: Callable[[str], Any], files: dict[str, Path], name: str, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = load(name)
    for column in columns:
        tick(page, column)
    box = page.find_element("css selector", "#projection")
    data = files[name].with_suffix(".mosaic")
    asked: list[int] = []
    with smalti.open(data) as file:
        read_at = file._source.read_at
        monkeypatch.setattr(file._source, "read_at", lambda at, size: asked.append(size) or read_at(at, size))
        file.read(columns)
    assert int(box.get_attribute("data-bytes")) == sum(asked)
    assert int(box.get_attribute("data-requests")) == len(asked)
    page.find_element("css selector", "#untick").click()
    assert "Tick columns" in text(page, "#projection")


def test_a_column_shows_its_encodings_and_statistics(load: Callable[[str], Any]) -> None:
    page = load("paged")
    search(page, "sensor_00002", "1 ")
    page.find_element("css selector", "#table-body .name").click()
    detail = text(page, "#detail")
    assert "DICT, 2 entries, nulls" in detail
    assert "33 nulls, from green to red" in detail


def test_clicking_the_map_chooses_a_bucket(load: Callable[[str], Any]) -> None:
    from selenium.webdriver import ActionChains

    page = load("paged")
    canvas = page.find_element("css selector", "#map")
    ActionChains(page).move_to_element_with_offset(canvas, 0, 5 - canvas.size["height"] // 2).click().perform()
    chip = wait(lambda: text(page, "#bucket-chip"))
    assert chip.startswith("bucket ")
    assert "columns: " in text(page, "#tip")
    assert int(text(page, "#found").split()[0]) < 20
    page.find_element("css selector", "#bucket-chip").click()
    wait(lambda: text(page, "#found").startswith("63 "))


PARTS = {
    "wide": ["header", "#legend", "#map-box", "#tail", ".tools", "#table"],
    "profile": ["header", "#bar", "#legend", ".tools", "#table"],
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("size", [(1500, 1300), (700, 1300)])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_overlaps_or_overflows(
    load: Callable[[str], Any], name: str, size: tuple[int, int], theme: str, tmp_path: Path
) -> None:
    page = load(name)
    page.set_window_size(*size)
    page.execute_script("document.documentElement.dataset.theme = arguments[0]", theme)
    if name == "wide":
        tick(page, "sensor_00007")
    assert page.execute_script("return document.documentElement.scrollWidth <= window.innerWidth")
    tops = page.execute_script(
        "return arguments[0].map((s) => "
        "{ const r = document.querySelector(s).getBoundingClientRect(); return [r.top, r.bottom] })",
        PARTS[name],
    )
    assert all(after[0] >= before[1] - 1 for before, after in pairwise(tops))
    paper, ink = page.execute_script(
        "const s = getComputedStyle(document.body); return [s.backgroundColor, s.color]"
        ".map((c) => c.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0) / 3)"
    )
    assert abs(paper - ink) > 150
    page.save_screenshot(str(tmp_path / "page.png"))
    assert (tmp_path / "page.png").stat().st_size > 20_000

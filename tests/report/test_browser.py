"""The pages in a real browser: every part is there, works, agrees with the reader, and asks nothing of the network."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import smalti
from smalti import jobs
from smalti.report import write_report
from tests.support.files import written

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
    for number in range(3):
        (directory / "table").mkdir(exist_ok=True)
        smalti.write_table(
            wide_table(40, 100 + 60 * number), directory / "table" / f"day-{number}.mosaic", num_buckets=5
        )
    write_report(directory / "table", directory / "table.html")
    pq.write_table(wide_table(40), directory / "plain.parquet")
    jobs.profile(directory / "plain.parquet", html=directory / "plain.html")
    return {name: directory / f"{name}.html" for name in (*data, "profile", "table", "plain")}


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


def wait(condition: Callable[[], Any], seconds: float = 60) -> Any:
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
        page.execute_script("return [...document.querySelectorAll('#table-body .name')].map((e) => e.dataset.name)")
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


def test_findings_are_filters(load: Callable[[str], Any]) -> None:
    for name, words in {
        "profile": ["2,500 columns are empty", "2,500 columns are constant"],
        "paged": ["15 columns are empty"],
    }.items():
        browser = load(name)
        chips = browser.find_elements("css selector", "#findings button")
        assert [chip.text for chip in chips][: len(words)] == words
        chips[0].click()
        wait(lambda b=browser, w=words: b.find_element("id", "found").text.startswith(w[0].split()[0] + " of"))
        assert "finding=empty" in browser.current_url
        assert chips[0].get_attribute("aria-pressed") == "true"
        chips[0].click()
        wait(lambda b=browser: "finding" not in b.current_url)


@pytest.mark.parametrize(("name", "place"), [("wide", 1), ("profile", 1)])
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
    for fact in ("240", "10,003", "KiB"):
        assert fact in facts
    for encoding in ("PLAIN", "CONST", "DICT", "ALL_NULL"):
        assert encoding in text(page, "#legend")
    assert text(page, "#found") == "10,003 of 10,003"
    assert names(page)[:3] == ["id", ATTACK, "tags"]
    search(page, "sensor_*77", "100 ")  # names by glob
    search(page, "list<", "1 ")  # types too
    assert names(page) == ["tags"]
    search(page, "sensor_0000", "10 ")
    assert [cells(page, place)[2] for place in (1, 3, 4, 5, 6)] == ["sensor_00002", "80", "~2", "green", "red"]
    assert page.find_elements("css selector", "#table-body .row")[2].find_elements("css selector", "[title='DICT 3']")
    histogram = page.find_elements("css selector", "#table-body .row")[0].find_elements("css selector", ".histogram i")
    assert len(histogram) == 16  # sensor_00000 has numbers
    nulls = page.find_elements("css selector", "#table-head .row > *")[3]
    nulls.click()  # the largest first, and the other way round with the keyboard
    wait(lambda: cells(page, 3)[0] == "240")
    nulls.send_keys("\n")
    wait(lambda: cells(page, 3)[0] == "0")
    assert nulls.get_attribute("aria-sort") == "ascending"


def test_columns_of_unknown_values_sort_last(load: Callable[[str], Any]) -> None:
    page = load("profile")
    search(page, "sensor_0000", "10 ")
    for _ in ("up", "down"):
        page.find_elements("css selector", "#table-head .row > *")[5].click()
        assert cells(page, 5)[-2:] == ["", ""]
        assert "" not in cells(page, 5)[:8]


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
        read = file._source._read
        monkeypatch.setattr(file._source, "_read", lambda found: asked.extend(n for _, n in found) or read(found))
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
    "profile": ["header", "#legend", "#map-box", "#tail", ".tools", "#table", ".panels"],
    "table": ["header", "#legend", "#map-box", ".tools", "#table", ".panels"],
    "plain": ["header", ".tools", "#table", ".panels"],
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("size", [(1500, 1300), (1280, 1300), (700, 1300)])
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
    if size[0] >= 1280:  # not even inside of the table
        assert page.execute_script("const t = document.querySelector('#table'); return t.scrollWidth <= t.clientWidth")
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


# --- one page for a file, a table, a profile -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parts", "titles"),
    [
        ("paged", {"map-part", "projection-part", "tree-part"}, {"nulls", "min", "bucket", "encodings", "in file"}),
        ("profile", {"map-part", "projection-part", "tree-part"}, {"nulls", "distinct", "values", "in file"}),
        ("table", {"map-part", "projection-part", "tree-part"}, {"encodings", "unpacked", "in file"}),
        ("plain", set(), {"nulls", "distinct", "min", "max", "values"}),
    ],
)
def test_a_page_has_the_parts_it_has_data_for(
    load: Callable[[str], Any], name: str, parts: set[str], titles: set[str]
) -> None:
    page = load(name)
    shown = page.execute_script(
        "return ['map-part', 'projection-part', 'tree-part'].filter((id) => !document.getElementById(id).hidden)"
    )
    assert set(shown) == parts
    heads = page.execute_script(
        "return [...document.querySelectorAll('[role=columnheader]')].map((e) => e.textContent)"
    )
    assert titles <= set(heads)
    assert ("distinct" in heads) is (name in ("profile", "plain"))


def test_a_table_has_its_files_side_by_side(load: Callable[[str], Any], files: dict[str, Path]) -> None:
    page = load("table")
    assert int(page.execute_script("return document.querySelector('#map').dataset.blocks")) == 3
    tick(page, "sensor_00007")
    tick(page, "id")
    read = int(page.find_element("css selector", "#projection").get_attribute("data-bytes"))
    expected = 0
    for path in sorted((files["table"].parent / "table").iterdir()):
        with smalti.open(path) as file:
            wanted = {file.bucket_of("sensor_00007"), file.bucket_of("id")}
            for group in file.layout(()).row_groups:
                assert all(bucket.mode == "monolithic" for bucket in group.buckets)
                expected += sum(bucket.size for bucket in group.buckets if bucket.id in wanted)
    assert read == expected


def focused(page: Any) -> str:
    return str(page.execute_script("return document.activeElement.innerText"))


def press(page: Any, *keys: str) -> None:
    from selenium.webdriver import ActionChains

    actions = ActionChains(page)
    for key in keys:
        actions.send_keys(key)
    actions.perform()


def test_the_table_works_with_the_keyboard(load: Callable[[str], Any]) -> None:
    from selenium.webdriver import Keys

    page = load("profile")
    page.execute_script("document.querySelector('#table').focus()")
    press(page, Keys.ARROW_DOWN)
    assert focused(page).startswith("id")
    press(page, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ENTER)
    assert text(page, "#detail h3") == "tags"
    assert focused(page).startswith("tags")  # the row keeps the focus when the table is drawn again
    press(page, Keys.SPACE)
    assert "1 of 10,003" in text(page, "#projection")
    press(page, Keys.END)
    wait(lambda: focused(page).startswith("sensor_09999"))
    press(page, Keys.HOME)
    wait(lambda: focused(page).startswith("id"))


def test_the_map_works_with_the_keyboard(load: Callable[[str], Any]) -> None:
    from selenium.webdriver import Keys

    page = load("paged")
    page.execute_script("document.querySelector('#map').focus()")
    press(page, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_DOWN)
    assert "bucket 1, row group 1" in text(page, "#tip")
    press(page, Keys.ENTER)
    wait(lambda: text(page, "#bucket-chip").startswith("bucket 1"))
    press(page, Keys.ESCAPE)
    assert not page.find_element("css selector", "#tip").is_displayed()


def test_prefixes_are_a_tree(load: Callable[[str], Any]) -> None:
    from selenium.webdriver import Keys

    page = load("wide")
    items = page.find_elements("css selector", "#tree > [role=treeitem]")
    assert len(items) <= 4
    page.execute_script("arguments[0].focus()", items[0])
    assert items[0].get_attribute("aria-expanded") == "false"
    press(page, Keys.ARROW_RIGHT)
    assert items[0].get_attribute("aria-expanded") == "true"
    press(page, Keys.ENTER)
    wait(lambda: text(page, "#found").startswith("10,000 "))
    press(page, Keys.ARROW_LEFT)
    assert items[0].get_attribute("aria-expanded") == "false"


def test_what_was_chosen_is_in_the_address(load: Callable[[str], Any]) -> None:
    page = load("paged")
    tick(page, "sensor_00003")
    tick(page, "tags")
    page.find_element("css selector", "#table-body .name").click()
    page.find_elements("css selector", "#table-head .row > *")[-1].click()
    address, cost = page.current_url, page.find_element("css selector", "#projection").get_attribute("data-bytes")
    assert "column=sensor_00003" in address
    page.get("about:blank")
    page.get(address)
    wait(lambda: page.execute_script("return document.documentElement.dataset.ready") == "yes")
    assert page.find_element("css selector", "#projection").get_attribute("data-bytes") == cost
    assert text(page, "#detail h3") == "tags"
    assert page.execute_script("return document.querySelector('#search').value") == "tags"
    assert text(page, "#argument") == 'columns=["tags", "sensor_00003"]'
    heads = page.find_elements("css selector", "#table-head .row > *")
    assert heads[-1].get_attribute("aria-sort") == "descending"


def test_a_screen_reader_finds_its_way(load: Callable[[str], Any]) -> None:
    """What assistive technology sees: landmarks, names, a grid whose size is known though few rows are drawn."""
    page = load("profile")
    page.execute_cdp_cmd("Accessibility.enable", {})
    found = page.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    seen = {(node["role"]["value"], node.get("name", {}).get("value", "")) for node in found if "role" in node}
    roles = {role for role, _ in seen}
    assert {
        "main",
        "banner",
        "grid",
        "row",
        "gridcell",
        "columnheader",
        "tree",
        "treeitem",
        "searchbox",
    } <= roles
    assert ("searchbox", "search columns") in seen
    assert ("checkbox", "tick id") in seen
    unnamed = [
        role
        for role, label in seen
        if role in ("button", "checkbox", "searchbox", "combobox", "grid", "tree") and not label
    ]
    assert unnamed == []
    grid = page.find_element("css selector", "#table")
    assert grid.get_attribute("aria-rowcount") == "10004"
    assert page.find_element("css selector", "#table-body .row").get_attribute("aria-rowindex") == "2"


def test_on_paper(load: Callable[[str], Any]) -> None:
    """Light, without tools, and with rows instead of a window that scrolls."""
    page = load("profile")
    page.execute_script("document.documentElement.dataset.theme = 'dark'")
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        page.execute_script("window.dispatchEvent(new Event('beforeprint'))")
        background = page.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert background == "rgb(255, 255, 255)"
        assert not page.find_element("css selector", ".tools").is_displayed()
        assert len(names(page)) == 200
        assert page.execute_script("return getComputedStyle(document.querySelector('#table')).overflow") == "visible"
        assert len(page.execute_cdp_cmd("Page.printToPDF", {})["data"]) > 20_000
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_long_names_stay_apart(load: Callable[[str], Any], tmp_path: Path, browser: Any) -> None:
    long = {f"{'a_common_beginning_of_names_' * 3}{i:03d}": [i] for i in range(30)}
    smalti.write_table(pa.table(long), tmp_path / "long.mosaic")
    write_report(tmp_path / "long.mosaic", tmp_path / "long.html")
    load("paged")
    browser.get((tmp_path / "long.html").as_uri())
    wait(lambda: browser.execute_script("return document.documentElement.dataset.ready") == "yes")
    shown = cells(browser, 1)
    assert len(set(shown)) == 30
    fits = "return [...document.querySelectorAll('#table-body .name')].every((e) => e.scrollWidth <= e.clientWidth)"
    assert browser.execute_script(fits)

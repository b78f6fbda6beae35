"""Makes the pictures of the page that the docs show: `python docs/screenshots.py`, with Debian's Chromium."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa

import smalti
from smalti import jobs
from smalti.report import write_report

IMAGES = Path(__file__).parent / "images"
#: Each picture: the page, its theme, the height of the window, and what is chosen on it.
PICTURES = {
    "report-light": ("file", "light", 1620, "#column=click_cart_30_days&column=customer_id&shown=click_cart_30_days"),
    "report-dark": ("file", "dark", 1620, "#column=click_cart_30_days&column=customer_id&shown=click_cart_30_days"),
    "report-table": ("table", "light", 640, ""),
}


def features(rows: int, seed: int) -> pa.Table:
    """A table of features as people have them: counts over windows of time, sensors, few texts, constants."""
    rng = random.Random(seed)
    kinds = [f"click_{what}_{days}_days" for what in ("home", "cart", "search", "product") for days in (1, 7, 30, 90)]
    return pa.table(
        {
            "customer_id": range(rows),
            "country": [rng.choice(["de", "fr", "us", None]) for _ in range(rows)],
            **{name: [rng.expovariate(0.3) for _ in range(rows)] for name in kinds},
            **{f"sensor_{i:04d}": [round(rng.gauss(20, 5), 1) for _ in range(rows)] for i in range(300)},
            **{f"state_{i:04d}": [rng.choice(["ok", "ok", "check"]) for _ in range(rows)] for i in range(200)},
            **{f"unused_{i:03d}": pa.nulls(rows, pa.string()) for i in range(80)},
        }
    )


def main() -> None:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory)
        smalti.write_table(features(2400, 0), where / "features.mosaic", row_group_max_rows=1000, num_buckets=40)
        jobs.profile(where / "features.mosaic", html=where / "file.html")
        (where / "features").mkdir()
        for day in range(5):
            smalti.write_table(features(300 + 150 * day, day), where / "features" / f"day-{day}.mosaic")
        write_report(where / "features", where / "table.html")
        for page, name in (("file", "features.mosaic"), ("table", "features")):
            path = where / f"{page}.html"
            path.write_text(path.read_text().replace(str(where / name), name))  # no directories of this machine
        for flag in ("--headless", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={where / 'chromium'}"):
            options.add_argument(flag)
        with webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"))) as browser:
            for name, (page, theme, height, choice) in PICTURES.items():
                size = {"width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": False}
                browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
                browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
                browser.get("about:blank")
                browser.get((where / f"{page}.html").as_uri() + choice)
                browser.save_screenshot(str(IMAGES / f"{name}.png"))
                print(IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()

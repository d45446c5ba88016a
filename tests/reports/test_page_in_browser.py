"""Pages of reports in a real browser, on a wide window and on a telephone."""

import html
import json
import re
import shutil
import subprocess

import pytest

from winogen.reports import catalog_page, layer_page
from winogen.reports.page import Section, page_of

BROWSER = next(filter(shutil.which, ("chromium", "chromium-browser", "google-chrome")), None)
OPTIONS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --window-size=1400,900 --dump-dom"
).split()
# Shows the page in frames of these widths, and writes down what it finds in each.
FRAMES = """<!DOCTYPE html><body>{frames}<pre id="measured"></pre><script>
onload = () => {{
  const lines = cell => {{
    const range = document.createRange();
    range.selectNodeContents(cell);
    const tops = [...range.getClientRects()].map(one => Math.round(one.top));
    return new Set(tops).size;
  }};
  measured.textContent = JSON.stringify([...document.querySelectorAll("iframe")].map(frame => {{
    const page = frame.contentDocument, root = page.documentElement;
    const all = (what) => [...page.querySelectorAll(what)];
    return {{
      room: root.clientWidth,
      page: root.scrollWidth,
      cut: all("div").filter(one => one.scrollWidth > one.clientWidth).length,
      numbers: all("td.number").length,
      lines: Math.max(...all("td.number").map(lines)),
      row: Math.max(...all("tr:not(:first-child)").map(one => one.offsetHeight)),
    }};
  }}));
}};
</script>"""
MANY = "0 1 -1 1/2 -1/2 2 -2 1/4 -1/4 4 -4 3/4 -3/4 4/3 -4/3 inf".split()
SOURCE = "Barabasz, Anderson, Soodhalter, Gregg, Error Analysis and Improving the Accuracy of " * 2


def catalog_row(name="f14_3", points=MANY, source=SOURCE):
    entry = {
        "name": name, "m": 14, "r": 3, "huffman": {"mean": 3.9612e-8, "half_width": 1e-9},
        "naive": {"mean": 4.123e-8}, "mixed": {"mean": 3.333e-8}, "estimate": 5.55e-8,
        "published": 7.65e-8, "ratio_to_published": 0.965, "n": 16, "products": 1234567,
        "instructions": {"input": 121, "filter": 88, "output": 97},
        "multiplications_per_output": 20.25, "moduli": None, "points": points, "source": source,
    }  # fmt: skip
    return catalog_page._row(entry)


def layer_row():
    error = 3.9612e-8
    row = {
        "label": "winograd2d F(6x6,3x3), float16", "points": [MANY[:8], MANY[:8]],
        "moduli": [None, None], "relative_max": error, "relative_l2": error, "ulp_median": 1.25,
        "maximum": error, "mean": error, "planned_relative_max": error, "bound": error,
        "predicted_relative_l2": error, "direct_multiplications": 115605504,
        "multiplications": 51380224, "packed_weight_bytes": 12345678,
        "workspace_bytes": 123456789, "predicted_ms": 0.123, "measured_ms": 11.61,
    }  # fmt: skip
    return layer_page._row(row)


def sections():
    short = catalog_row("f2_3", ["0", "1", "-1", "inf"], "classic")
    text = "max |error| / max |output| within_the_" + "very_" * 30 + "long_name"
    return [
        Section("The catalog", [text], rows=[catalog_row(), short] * 3),
        Section("Errors", ["One layer."], rows=[layer_row()] * 3),
        Section("Few", rows=[{"points": MANY, "error": 3.9612e-8}]),
    ]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    if BROWSER is None:
        pytest.skip("no browser here: pages are not looked at; apt-get install chromium")
    folder = tmp_path_factory.mktemp("browser")
    page = html.escape(page_of("Title", sections(), ["a.csv"], {"winogen": "1"}), quote=True)
    frames = "".join(
        f'<iframe width="{width}" height="800" srcdoc="{page}"></iframe>' for width in (1280, 390)
    )
    (folder / "frames.html").write_text(FRAMES.format(frames=frames), "utf-8")
    words = [BROWSER, *OPTIONS, f"--user-data-dir={folder}/data", f"file://{folder}/frames.html"]
    made = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    found = re.search('<pre id="measured">(.*?)</pre>', made.stdout)
    return dict(zip((1280, 390), json.loads(html.unescape(found[1]))))


@pytest.mark.parametrize("width", [1280, 390])
def test_a_page_is_as_wide_as_its_window(measured, width):
    assert measured[width]["page"] <= measured[width]["room"]


@pytest.mark.parametrize("width", [1280, 390])
def test_numbers_are_on_one_line(measured, width):
    assert measured[width]["numbers"] > 50 and measured[width]["lines"] == 1


@pytest.mark.parametrize("width", [1280, 390])
def test_rows_are_low(measured, width):
    assert 15 < measured[width]["row"] < 80


def test_tables_end_with_their_last_column_on_a_wide_window(measured):
    assert measured[1280]["cut"] == 0


def test_long_texts_have_a_table_of_their_own():
    first, *_ = sections()
    numbers, texts = first.tables
    assert texts == ["algorithm", "points or moduli", "from"]
    assert not set(numbers) & set(texts[1:]) and set(first.columns) == {*numbers, *texts}


def test_every_table_begins_with_what_names_its_rows():
    for section in sections()[:2]:
        assert [columns[0] for columns in section.tables] == ["algorithm", "algorithm"]

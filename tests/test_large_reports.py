"""Ten thousand trials of one family: pages stay small, and every trial can still be reached from them."""

import hashlib
import html
import json
import os
import re
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote

import browser
import first_pages
import numpy as np
import polars as pl
import pytest
from conftest import CHECKOUT, executed_in, pages_made_in
from page_links import followed, without_scripts
from tidy_fixture import HOSTILE, Tables, write_file_size

from benchstudy.model.studyfile import load_study
from benchstudy.report import htmlpages
from benchstudy.report.figures import thinning
from benchstudy.report.results import trialplaces
from benchstudy.report.trials import triallist

MEGABYTE = 1_000_000
TRIALS = 10_000


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """The page of 10 000 trials as the workflow makes it, and the first page; with evil names and failures."""
    root = tmp_path_factory.mktemp("large")
    tidy = write_file_size(root, blocks=TRIALS // 40)
    with pages_made_in(root):
        folder = root / "reports" / "embedded"
        htmlpages.render_notebook(executed_in(root, "file_size"), folder / "file_size.html", title="Large")
        first_pages.build(
            load_study(CHECKOUT / "config" / "config.yaml"),
            tidy={"file_size": tidy},
            sessions=[root / "data/raw/embedded/this-machine/file_size/session.json"],
            reports=root / "reports",
        )
    return root / "reports"


@pytest.fixture(scope="module")
def table(reports):
    """The table of trials from which the pages are made."""
    return pl.read_parquet(reports.parent / "data" / "tidy" / "embedded" / "file_size" / "trials.parquet")


@pytest.fixture(scope="module")
def texts(reports):
    """The pages; `headline.html` is a part of the first one."""
    pages = (path for path in sorted(reports.rglob("*.html")) if path.name != "headline.html")
    return {path: path.read_text(encoding="utf-8") for path in pages}


def trial_pages(texts):
    return {path: text for path, text in texts.items() if path.parent.name == "trials"}


def test_every_page_stays_below_three_megabytes(texts, table):
    assert table.height >= TRIALS
    sizes = {path.name: len(text.encode()) for path, text in texts.items()}
    assert max(sizes.values()) < 3 * MEGABYTE, sizes
    assert {"index.html", "file_size.html"} < set(sizes)


def test_every_trial_is_in_one_page_with_its_files_and_their_hashes(texts, table):
    """Its id, the link to its folder and to each non-empty file, and the SHA-256 of each of these."""
    found = {}
    for path, text in texts.items():
        for row in re.findall(r'<tr id="trial-.*?</tr>', without_scripts(text), re.DOTALL):
            trial = re.match(r'<tr id="trial-(\w+)"', row)[1]
            assert trial not in found, "in one page only"
            found[trial] = (path, row)
    assert set(found) == set(table["trial"])
    for trial, raw, raw_files in table.select("trial", "raw", "raw_files").iter_rows():
        path, row = found[trial]
        hrefs = {html.unescape(href) for href in re.findall(r'href="([^"]*)"', row)}
        linked = {os.path.relpath(path.parent / href, path.parents[4]) for href in map(unquote, hrefs)}
        files = [file for file in json.loads(raw_files) if file["size"]]
        assert linked == {raw, *(f"{raw}/{file['name']}" for file in files)}
        assert all(f"<code>{file['sha256']}</code>" in row for file in files)


def test_every_link_between_the_pages_leads_to_an_id(texts):
    assert len(followed(texts)) > 1_000


def test_from_a_cell_to_its_trials_and_back(texts, reports):
    """A cell links to its case, which shows the command and links to its trials, which link back."""
    page = without_scripts(texts[reports / "embedded" / "file_size.html"])
    case = re.search(r'<td class="number"[^>]*><a href="#(case-[^"]+)"', page)[1]
    section = re.search(rf'<details class="case" id="{re.escape(case)}">.*?</details>', page, re.DOTALL)[0]
    assert "file-size" in re.search(r"<pre>(.*?)</pre>", section)[1]
    assert "Verified: file system type: ext4" in section
    way = re.search(r'<a href="(file_size/trials/[^"]+)">250 trials', section)[1]
    trials = texts[reports / "embedded" / html.unescape(way)]
    assert f'href="../../file_size.html#{case}"' in trials
    assert trials.count("<tr id=") == 250


def test_a_figure_says_how_many_of_its_points_are_drawn_and_where_all_are(texts, reports, table):
    page = texts[reports / "embedded" / "file_size.html"]
    said = re.findall(r"([\d,]+) of ([\d,]+) points are drawn: the lowest and the highest of each case", page)
    assert said and all(int(drawn.replace(",", "")) <= 1_000 < int(of.replace(",", "")) for drawn, of in said)
    assert "trials.csv has all" in page
    listed = pl.read_csv(reports / "embedded" / "file_size" / "tables" / "trials.csv", infer_schema_length=None)
    assert set(listed["trial"]) == set(table["trial"]) and listed.height == table.height
    assert listed["duration [s]"].drop_nulls().len() > 9_000


def test_a_click_on_a_point_opens_its_trial(reports, texts):
    script = """
      const hollow = "#figure-duration .view svg .mark-symbol path[fill=transparent]"; // filled ones are medians
      const points = [...document.querySelectorAll(hollow)];
      const box = points[0].getBoundingClientRect();
      const at = { bubbles: true, cancelable: true, view: window, clientX: box.left + 3, clientY: box.top + 3 };
      // The answer is out before the page is left: a page that is gone answers nothing.
      setTimeout(() => points[0].dispatchEvent(new window.MouseEvent("click", at)));
      return points.length;
    """
    with browser.opened(reports / "embedded" / "file_size.html") as tab:
        assert 300 < tab.ask(script) <= 4 * thinning.MOST_POINTS
        tab.load()
        path, trial = unquote(tab.ask("return location.href")).removeprefix("file://").split("#")
    assert f'id="{trial}"' in texts[Path(path)]


def test_failures_on_the_first_page_lead_to_their_trials(texts, reports):
    for index in (reports / "index.html", reports / "embedded" / "index.html"):
        page = without_scripts(texts[index])
        row = re.search(r'<a href="([^"#]*)#trial-\w+">sshfs · .*?</tr>', page, re.DOTALL)
        assert "No space left on device" in row[0]
        assert (index.parent / html.unescape(row[1])).resolve() in trial_pages(texts)
        of_points = re.search(r'<a tabindex="-1" href="([^"#]*/trials/[^"#]*)#trial-\w+"><path', page)
        assert (index.parent / html.unescape(of_points[1])).resolve() in trial_pages(texts)


def test_a_page_of_trials_is_read_without_scripts_by_eye_and_by_ear(reports, texts):
    page, text = max(trial_pages(texts).items(), key=lambda found: HOSTILE.split("<")[1] in html.unescape(found[1]))
    assert "<script" not in text and HOSTILE not in text
    assert '<html lang="en">' in text and 'class="skip"' in text and 'id="content"' in text
    levels = [int(level) for level in re.findall(r"<h([1-6])\b", text)]
    assert levels[0] == 1 and all(b - a <= 1 for a, b in pairwise(levels))
    assert not re.findall(r"<th(?![^>]*scope=)[ >]", text)
    assert re.search(r'role="region" aria-label="Trials of [^"]+" tabindex="0"', text)
    with browser.opened(page, scripts=False) as tab:
        assert tab.console() == []
    assert browser.ask(page, "return document.documentElement.scrollWidth", width=390) == 390


# -- which page a trial is on ---------------------------------------------------------------


def places_of(root, cases, *, room, trials=3, **fields):
    tables = Tables(root, "embedded", "file_size")
    for name in cases:
        for block in range(1, trials + 1):
            tables.add({"backend": name}, block, {"duration": (1.0, "s")}, **fields)
    results = tables.results()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in room.items():
            patch.setattr(trialplaces, name, value)
        return results, results.places


def test_trials_move_out_only_when_there_is_no_room_for_them(tmp_path):
    details = []
    for room in (MEGABYTE, 5_000, 1_000):
        results, places = places_of(tmp_path / str(room), ["a", "b"], room={"ROOM": room})
        details.append(places.detail)
        text = triallist.TrialList(results, ["duration"], tmp_path, tmp_path / "reports").html()
        listed = {f'id="trial-{trial}"' in text for trial in results.trials["trial"]}
        assert listed == {places.detail != "apart"}
        assert ("/stdout" in text) == (places.detail == "linked"), "a link to each file"
        assert (results.trials["raw"][0] in text) == (places.detail != "apart")
    assert details == ["linked", "listed", "apart"]


def test_a_case_of_many_trials_has_several_pages_and_names_that_begin_alike_stay_apart(tmp_path):
    long = "x" * 220
    results, places = places_of(
        tmp_path, [f"{long}1", f"{long}2", "b"], room={"ROOM": 0, "_ROOM_OF_ITS_OWN": 4_000}, trials=4
    )
    made = list(triallist.TrialList(results, ["duration"], tmp_path, tmp_path / "reports" / "embedded").pages())
    paths = [page.path for page in made]
    assert len(set(paths)) == len(paths) > 3
    assert all(len(Path(path).name) < 250 for path in paths)
    assert sum(page.inner.count("<tr id=") for page in made) == results.trials.height
    for trial in results.trials["trial"]:
        (page,) = (page for page in made if f'id="trial-{trial}"' in page.inner)
        assert places.href(trial) == f"{page.path}#trial-{trial}"


def test_commands_are_said_once_and_ports_are_no_difference(tmp_path):
    tables = Tables(tmp_path, "embedded", "file_size")
    for block in range(1, 41):
        name = hashlib.sha256(bytes([block])).hexdigest()
        asked = f"http://127.0.0.1:{20_000 + block}/{name} --master-port={30_000 + block}"
        argv = f"ab -n {500 if block % 2 else 600} {asked}"
        tables.add({"backend": "a"}, block, {"duration": (1.0, "s")}, argv=argv)
    text = triallist.TrialList(tables.results(), ["duration"], tmp_path, tmp_path / "reports").html()
    said = r"Command (\d), of trial \w+; except for names and ports, 19 others ran the same"
    assert re.findall(said, text) == ["1", "2"]
    assert text.count("<pre>") == 2 and text.count("<td>2</td>") >= 20, "each row says which"


def test_many_facts_are_a_list_of_lists_without_empty_ones(tmp_path):
    few = {"fs_type": "ext4", "mounted": True, "limits": {"asked": None, "cpus": []}}
    load = {"phases": [{"name": "ramp", "end_s": 3.789}, {"name": "<steady>"}], "asked": {"cpus": None}}
    tables = Tables(tmp_path, "embedded", "file_size")
    for name, facts in (("few", few), ("many", few | load | {f"count_{n}": n for n in range(9)})):
        tables.add({"backend": name}, 1, {"duration": (1.0, "s")}, verified=json.dumps(facts))
    text = triallist.TrialList(tables.results(), ["duration"], tmp_path, tmp_path / "reports").html()
    assert ">Verified: fs type: ext4; mounted: yes; limits cpus: none</p>" in text
    assert re.search(
        r"<details class=.verified.><summary>Verified in trial \w+: 15 facts</summary><ul><li>fs type: ext4</li>", text
    )
    phases = "<li>phases<ul><li>name: ramp</li><li>end s: 3.79</li></ul></li>"
    assert f"{phases}<li>phases<ul><li>name: &lt;steady&gt;</li></ul></li><li>count 0: 0</li>" in text
    assert "asked" not in text


# -- which points are drawn -----------------------------------------------------------------


def cloud(count, cases=4, seed=3):
    random = np.random.default_rng(seed)
    values = np.round(random.lognormal(0, 1, count), 2)  # some of them equal
    names = [f"case {number % cases}" for number in range(count)]
    return pl.DataFrame({"series": names, "x": 1.0, "y": values, "trial": [f"{n:08x}" for n in range(count)]})


def test_points_that_are_drawn_keep_ends_and_quantiles_of_every_case():
    every = cloud(8_000)
    drawn = thinning.thinned(every, ["series"])
    assert drawn.height == thinning.MOST_POINTS and drawn.join(every, on=every.columns, how="anti").is_empty()
    for (name,), of_all in every.group_by("series"):
        kept = drawn.filter(pl.col("series") == name)["y"]
        assert (kept.min(), kept.max()) == (of_all["y"].min(), of_all["y"].max())
        for share in (0.1, 0.25, 0.5, 0.75, 0.9):
            below = (of_all["y"] <= kept.quantile(share)).mean()
            assert abs(below - share) < 0.03, "its quantiles are those of all"


def test_the_choice_does_not_depend_on_the_order_of_rows():
    every = cloud(3_000)
    assert thinning.thinned(every.reverse(), ["series"]).equals(thinning.thinned(every, ["series"]))


def test_all_points_are_drawn_where_there_is_room_and_five_of_a_case_always():
    few = cloud(thinning.MOST_POINTS)
    assert thinning.thinned(few, ["series"]).equals(few)
    of_many = thinning.thinned(cloud(3_000, cases=300), ["series"])
    assert set(of_many.group_by("series").len()["len"]) == {5}
    lone = pl.concat([cloud(300, cases=1), pl.DataFrame({"series": ["lone"], "x": [1.0], "y": [9.0], "trial": ["f"]})])
    assert thinning.thinned(lone, ["series"]).filter(pl.col("series") == "lone").height == 1

"""What tests look at in a page of the made-up study, all of it in one visit of a browser."""

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browser

OPENED = """
  const pause = () => new Promise((done) => setTimeout(done, 500));
  const widths = [document.documentElement.scrollWidth];
  window.frameElement.style.width = "1440px";
  await pause();
  widths.push(document.documentElement.scrollWidth);
  const shown = { widths, title: document.title, dom: document.documentElement.outerHTML };
  let seen;
  try { seen = await (async () => { return LOOK; })(); } catch (error) { seen = String(error); }
  return JSON.stringify({ ...shown, seen });
"""
FIRST_TRIAL = "#trial-"
CASE = "case-backend=local,op=write,size=1MB,sync=fsync"
# By page: where it is opened (at the first trial), and what is looked at then.
LOOKS = {
    "file_size": (
        f"#{CASE}",
        """{
          open: [...document.querySelectorAll("details.case[open]")].map((d) => d.id),
          marks: await (async () => {
            const figure = document.querySelector("#figure-duration");
            const marks = () => figure.querySelectorAll(".view svg .mark-symbol path").length;
            const before = marks();
            [...figure.querySelectorAll(".legend button")].find((b) => b.dataset.series === "local").click();
            await pause();
            return [before, marks()];
          })(),
        }""",
    ),
    "fio": (FIRST_TRIAL, "document.querySelector(':target').closest('details.case').open"),
    "load_test": (
        "",
        """await (async () => {
          const svg = document.querySelector("[id^=figure-panels-bounded] .view svg");
          svg.scrollIntoView({ block: "center" });
          const box = svg.getBoundingClientRect();
          const at = { bubbles: true, clientX: box.left + box.width * 0.7, clientY: box.top + box.height * 0.5 };
          const under = document.elementFromPoint(at.clientX, at.clientY);
          const tip = () => document.querySelector("#vg-tooltip-element.visible");
          for (let i = 0; i < 200 && !tip(); i++) {
            for (const kind of ["pointerover", "pointermove"])
              under.dispatchEvent(new window.PointerEvent(kind, { ...at, view: window }));
            await new Promise((done) => setTimeout(done, 50));
          }
          return tip().innerText.replace(/\\s+/g, " ");
        })()""",
    ),
}


@dataclass(frozen=True)
class Shown:
    """A page in a browser: its widths, then its title and document once all scripts ran, and what `LOOKS` saw."""

    console: list[str]
    widths: list[int]
    title: str
    dom: str
    seen: Any


def show(page: Path) -> Shown:
    fragment, look = LOOKS.get(page.stem, ("", "null"))
    if fragment == FIRST_TRIAL:
        fragment = "#" + re.search(r'<tr id="(trial-\w+)"', page.read_text(encoding="utf-8"))[1]
    said, console = browser.told(page, OPENED.replace("LOOK", look), fragment=fragment)
    return Shown(console, **json.loads(html.unescape(said)))

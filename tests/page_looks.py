"""Everything that tests look at in a page of the made-up study, in one visit of a browser."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import browser
import webtools

PHONE = """
  const width = document.documentElement.scrollWidth;
  document.querySelectorAll("details.fold").forEach((fold) => { fold.open = true; });
  await settled();
  const texts = [...document.querySelectorAll(".view svg text")].filter((text) => text.textContent.trim());
  const scale = (svg) => svg.getBoundingClientRect().width / (svg.viewBox.baseVal.width || svg.width.baseVal.value);
  const sizes = texts.map((text) => parseFloat(window.getComputedStyle(text).fontSize) * scale(text.ownerSVGElement));
  const words = [...document.querySelectorAll("main *")].filter((e) => !e.closest("svg") && e.checkVisibility());
  const written = words.filter((e) => [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  const least = Math.min(...sizes, ...written.map((e) => parseFloat(window.getComputedStyle(e).fontSize)), 99);
  const tables = [...document.querySelectorAll(".table-frame > table:not(.primary)")];
  const scrolled = tables.filter((table) => table.offsetWidth > table.parentElement.clientWidth + 1);
  const rows = scrolled.flatMap((table) => [...table.rows]).filter((row) => row.cells.length > 5);
  const narrow = rows.flatMap((row) => [...row.cells]).filter((cell) => cell.offsetWidth < 80);
  const squeezed = narrow.map((cell) => cell.innerText);
  return { width, least, squeezed };
"""
DESK = """
  const frames = [...document.querySelectorAll(".table-frame")].filter((frame) => !frame.closest("details.case"));
  const wide = frames.filter((frame) => frame.scrollWidth > frame.clientWidth + 1).map((frame) => frame.ariaLabel);
  const width = document.documentElement.scrollWidth, stops = document.querySelectorAll(".view a:not([tabindex='-1'])");
  return { width, wide, title: document.title, dom: document.documentElement.outerHTML, stops: stops.length };
"""
BARRIERS = """
  // Axe takes a millisecond per element. What differs from its sibling only in words, numbers and addresses goes. So
  // does a panel, table or case that differs only in these from one in the same kind of place.
  const kinds = new Map(), seen = new Set(), gone = [];
  const free = "id href d transform x y x1 x2 y1 y2 width height viewBox".split(" ");
  const ofDrawing = "aria-label stroke stroke-width stroke-dasharray fill fill-opacity".split(" ");
  const kindOf = (element, around) => {
    const inner = [], place = `${around} ${element.localName}.${element.getAttribute("class")}`;
    for (const child of [...element.children]) {
      const kind = kindOf(child, place);
      const again = inner.includes(kind) && child.matches("tr, li, details, svg *");
      const elsewhere = seen.has(place + kind) && child.matches(".panel, .table-frame, details, svg");
      seen.add(place + kind);
      if (again || elsewhere) gone.push(child);
      else inner.push(kind);
    }
    const isDrawing = element.closest("svg") && !element.matches("text, tspan");
    const isFree = (name) => free.includes(name) || (isDrawing && ofDrawing.includes(name));
    const attributes = [...element.attributes].map(({ name, value }) => [name, isFree(name) ? value !== "" : value]);
    const hasWords = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    const told = JSON.stringify([element.localName, hasWords, attributes, inner]);
    return kinds.get(told) ?? kinds.set(told, kinds.size + 1).size;
  };
  kindOf(document.body, "");
  gone.forEach((child) => child.remove());
  // Axe cannot tell a contrast on a gradient. Those of tables are the shadows at the edges of what scrolls.
  document.querySelectorAll(".table-frame").forEach((frame) => { frame.style.backgroundImage = "none"; });
  const folds = [...document.querySelectorAll("details")], found = [];
  const options = { resultTypes: ["violations"], selectors: false, reporter: "no-passes" };
  for (const open of [false, true]) {
    folds.forEach((details) => { details.open = open; });
    await settled();
    // Contrasts take most of axe's time. Folded, only summaries have other colours than unfolded.
    axe.configure({ rules: [{ id: "color-contrast", selector: open ? "*" : "summary, summary *" }] });
    for (const rule of (await axe.run(document, options)).violations)
      for (const node of rule.nodes) found.push(`${rule.id}: ${node.html.slice(0, 200)}`);
  }
  return found;
"""
FIRST_TRIAL = "#trial-"
CASE = "case-backend=local,op=write,size=1MB,sync=fsync"
# By page: where it is opened (at the first trial), and what is looked at there.
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
            while (marks() === before) await pause();
            return [before, marks()];
          })(),
          off: window.getComputedStyle(document.querySelector(".legend button[aria-pressed=false]")).textDecorationLine,
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
    """A page in a browser, with its folds opened.

    Its widths, then its title and document after all scripts ran, and what `LOOKS` saw. `least`: pixels of the smallest
    text on a phone; `squeezed`: cells of large tables that are narrow there, although the table scrolls;
    `wide`: tables that scroll sideways on a wide screen. `stops`: links of figures at which
    the tab key stops. `barriers`: what axe found, folded and unfolded.
    """

    console: list[str]
    widths: list[int]
    least: float
    squeezed: list[str]
    wide: list[str]
    title: str
    dom: str
    stops: int
    barriers: list[str]
    seen: Any


def show(page: Path) -> Shown:
    fragment, look = LOOKS.get(page.stem, ("", "null"))
    if fragment == FIRST_TRIAL:
        fragment = "#" + re.search(r'<tr id="(trial-\w+)"', page.read_text(encoding="utf-8"))[1]
    with browser.opened(page, fragment=fragment) as tab:
        phone = tab.ask(PHONE)
        tab.be_wide(1440)
        desk = tab.ask(DESK)
        widths = [seen.pop("width") for seen in (phone, desk)]
        tab.ask(webtools.axe().read_text(encoding="utf-8"))
        seen = tab.ask(f"return {look};")  # first, so that axe sees a series switched off, and a tooltip
        barriers = tab.ask(BARRIERS)
        return Shown(tab.console(), widths, **phone, **desk, barriers=barriers, seen=seen)

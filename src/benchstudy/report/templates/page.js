"use strict";
// Without scripts the page shows static figures and closed details; everything here only adds to that.
(() => {
  const views = new Map(); // figure -> the promise of its Vega views

  const embed = async (panel) => {
    const spec = JSON.parse(panel.querySelector("script.spec").textContent);
    const holder = panel.querySelector(".view");
    const still = document.createElement("div"); // what paper gets: neither as wide as the window nor with hidden series
    still.className = "on-paper";
    still.append(...[...holder.childNodes].map((node) => node.cloneNode(true)));
    try {
      const options = { mode: "vega-lite", renderer: "svg", actions: false, tooltip: { theme: "custom" } };
      const result = await vegaEmbed(holder, spec, options);
      holder.dataset.rendered = "yes";
      holder.after(still);
      return result.view;
    } catch (error) {
      holder.replaceChildren(...still.childNodes);
      console.error("figure", error);
      return null;
    }
  };

  const start = (figure) => {
    if (!views.has(figure)) {
      const panels = [...figure.querySelectorAll(".panel")];
      views.set(figure, Promise.all(panels.map(embed)).then((all) => all.filter(Boolean)));
    }
    return views.get(figure);
  };

  // Figures in the viewport are drawn first. Between two figures the page responds to input.
  const figures = [...document.querySelectorAll("figure.chart")];
  const inSight = ({ top, bottom }) => bottom > 0 && top < innerHeight;
  // A folded figure has no width yet; it is drawn when somebody opens the fold.
  const startVisible = async () => {
    const visible = figures.filter((figure) => !figure.closest("details:not([open])"));
    const later = new Map(visible.map((figure) => [figure, inSight(figure.getBoundingClientRect()) ? 0 : 1]));
    for (const figure of visible.toSorted((a, b) => later.get(a) - later.get(b))) {
      await start(figure);
      await new Promise((done) => setTimeout(done));
    }
  };
  // Vega would add its tooltip at the end of the body, outside of the page's landmarks. It takes one that is there.
  if (figures.length) {
    const tip = document.createElement("div");
    tip.id = "vg-tooltip-element";
    document.querySelector("main").append(tip);
  }
  startVisible();
  const opened = () => {
    dispatchEvent(new Event("resize")); // a part with an open fold may get the whole width, and figures fill it
    startVisible();
  };
  document.addEventListener("toggle", opened, true);

  const toggle = async (figure, button) => {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "true" ? "false" : "true");
    const off = [...figure.querySelectorAll(".legend button[aria-pressed=false]")].map((b) => b.dataset.series);
    (await start(figure)).forEach((view) => view.signal("hidden", off).runAsync());
  };
  figures.forEach((figure) =>
    figure.querySelectorAll(".legend button").forEach((b) => b.addEventListener("click", () => toggle(figure, b))),
  );

  const reveal = () => {
    const id = decodeURIComponent(location.hash.slice(1));
    const target = id && document.getElementById(id);
    if (!target) return;
    for (let node = target; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
    target.scrollIntoView({ block: "start" });
  };
  addEventListener("hashchange", reveal);
  reveal();
})();

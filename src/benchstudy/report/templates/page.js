"use strict";
// Without scripts the page shows static figures and closed details; everything here only adds to that.
(() => {
  const views = new Map(); // figure -> its Vega views

  const embed = async (panel) => {
    const spec = JSON.parse(panel.querySelector("script.spec").textContent);
    const holder = panel.querySelector(".view");
    const fallback = holder.innerHTML;
    try {
      const options = { mode: "vega-lite", renderer: "svg", actions: false, tooltip: { theme: "custom" } };
      const result = await vegaEmbed(holder, spec, options);
      holder.dataset.rendered = "yes";
      return result.view;
    } catch (error) {
      holder.innerHTML = fallback;
      console.error("figure", error);
      return null;
    }
  };

  const start = async (figure) => {
    if (views.has(figure)) return;
    views.set(figure, []);
    const panels = [...figure.querySelectorAll(".panel")];
    views.set(figure, (await Promise.all(panels.map(embed))).filter(Boolean));
  };

  const figures = [...document.querySelectorAll("figure.chart")];
  figures.forEach(start);

  const toggle = (figure, button) => {
    button.setAttribute("aria-pressed", button.getAttribute("aria-pressed") === "true" ? "false" : "true");
    const off = [...figure.querySelectorAll(".legend button[aria-pressed=false]")].map((b) => b.dataset.series);
    views.get(figure).forEach((view) => view.signal("hidden", off).runAsync());
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

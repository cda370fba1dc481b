"use strict";
// Sorts and filters the table of all metrics. Without scripts it is a plain table in the study's own order.
(() => {
  const table = document.querySelector("table.primary");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];

  const key = (row, column) => {
    const cell = row.cells[column];
    const text = cell.textContent.trim();
    if (!heads[column].dataset.number) return text.toLowerCase();
    const value = parseFloat(cell.dataset.value ?? text);
    return Number.isNaN(value) ? Infinity : value;
  };
  const compare = (a, b) => (typeof a === "number" ? a - b || 0 : a.localeCompare(b, "en", { numeric: true }));
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = [...rows].sort((a, b) => (down ? -1 : 1) * compare(key(a, column), key(b, column)));
      body.append(...sorted);
    });
  });

  const form = document.querySelector(".filter");
  if (!form) return;
  const words = form.querySelector("input");
  const verdict = form.querySelector("select"); // none if nothing was compared
  const count = form.querySelector("output");
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      const kinds = (row.dataset.verdicts || "").split(" ");
      row.hidden = !wanted.every((word) => text.includes(word)) || (verdict?.value && !kinds.includes(verdict.value));
      shown += !row.hidden;
    });
    count.textContent = `${shown} of ${rows.length} rows`;
  };
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  filter();
})();

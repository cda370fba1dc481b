"use strict";
// Folds are open on paper, also in browsers whose style sheets cannot open them, and afterwards as they were.
(() => {
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((fold) => (fold.open = true));
  });
  addEventListener("afterprint", () => opened.splice(0).forEach((fold) => (fold.open = false)));
})();

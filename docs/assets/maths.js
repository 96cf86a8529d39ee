// Settings of MathJax, read when assets/mathjax.js loads. Only the elements written by the builder are typeset.
window.MathJax = {
  tex: {
    inlineMath: [["\\(", "\\)"]],
    displayMath: [["\\[", "\\]"]],
    macros: { mathds: ["\\mathbb{#1}", 1], mathbbm: ["\\mathbb{#1}", 1] },
  },
  svg: { fontCache: "global", scale: 0.92 },
  options: { ignoreHtmlClass: ".*", processHtmlClass: "arithmatex", enableMenu: false },
  startup: {
    ready() {
      MathJax.startup.defaultReady();
      MathJax.startup.promise.then(() => {
        markWideFormulas();
        addEventListener("resize", markWideFormulas);
        document.documentElement.dataset.maths = "ready";
      });
    },
  },
};

// An inline formula wider than its paragraph scrolls in its own box instead of widening the page.
function markWideFormulas() {
  for (const formula of document.querySelectorAll("mjx-container:not([display])")) {
    formula.classList.remove("wide");
    const box = formula.closest("p, li, td, dd, figcaption, h1, h2, h3, h4");
    if (box) formula.classList.toggle("wide", formula.offsetWidth > box.clientWidth);
  }
}

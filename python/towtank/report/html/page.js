// Theme switch, sortable tables, and figures that come alive. Everything works without this file, only quieter.
(() => {
  "use strict";
  const root = document.documentElement;

  // --- theme: follows the system until the reader chooses -----------------------------------------------
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  const store = {
    get() { try { return localStorage.getItem("towtank-theme"); } catch { return null; } },
    set(value) { try { localStorage.setItem("towtank-theme", value); } catch { /* a private window: not kept */ } },
  };
  const show = (theme) => {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.setAttribute("data-theme", theme);
    button.textContent = button.dataset[theme];
    button.dataset.now = theme;
  };
  button.hidden = false;
  show(themes.includes(store.get()) ? store.get() : "auto");
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(button.dataset.now) + 1) % themes.length];
    store.set(next);
    show(next);
  });

  // --- tables: a click on a heading sorts ----------------------------------------------------------------
  const key = (row, index) => {
    const cell = row.cells[index];
    const text = cell.dataset.sort;
    if (text === undefined) return cell.textContent.trim();
    return text === "inf" ? Infinity : Number(text);
  };
  const compare = (a, b) => {
    const numbers = typeof a === "number" && typeof b === "number";
    if (numbers) return a === b ? 0 : a - b;
    if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b, undefined, { numeric: true });
  };
  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    if (body.rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.className = "sorter";
      sorter.textContent = head.textContent;
      head.replaceChildren(sorter);
      sorter.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => (down ? -1 : 1) * compare(key(a, index), key(b, index)));
        body.append(...rows);
      });
    });
  }

  // --- print: nothing stays folded ------------------------------------------------------------------------
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open]):not(.small)")];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => { for (const details of opened) details.open = false; });

  // --- figures: the static drawing stays until the live one is there ----------------------------------------
  if (typeof vegaEmbed === "undefined") return;
  const narrow = matchMedia("screen and (max-width: 700px)");
  const options = {
    ast: true, // expressions are interpreted, not compiled: the policy forbids eval
    renderer: "svg",
    actions: false,
    defaultStyle: false,
    tooltip: { theme: "report", disableDefaultStyle: true },
  };
  const views = new Map();
  const draw = async (figure) => {
    const width = narrow.matches ? "narrow" : "wide";
    if (figure.dataset.drawn === width) return;
    const both = JSON.parse(figure.querySelector("script.spec").textContent);
    const spec = { ...both[width], datasets: both.datasets };
    const live = figure.querySelector(".live");
    views.get(figure)?.finalize();
    live.hidden = false;
    const result = await vegaEmbed(live, spec, options);
    views.set(figure, result);
    figure.querySelector(".static").hidden = true;
    figure.dataset.drawn = width;
  };
  const drawAll = async () => {
    for (const figure of document.querySelectorAll("figure.figure")) {
      try {
        await draw(figure);
      } catch (error) {
        console.error(`figure ${figure.id} stays static:`, error);
        figure.querySelector(".live").hidden = true;
      }
    }
    root.dataset.figures = "drawn";
  };
  narrow.addEventListener("change", drawAll);
  drawAll();
})();

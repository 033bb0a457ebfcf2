// The table (sort, filter, keys), the view of one case by the page's address, and when charts are drawn.
"use strict";

(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);
  const data = JSON.parse(one("#data").textContent);
  const table = one("#table");
  const body = one("tbody", table);
  const rows = all("tr", body);
  const articles = new Map(all("article").map((each) => [each.dataset.case, each]));
  const filter = one("#filter");
  const kinds = one("#kinds");
  const link = (row) => one("a", row);
  const visible = () => all("tr", body).filter((row) => !row.hidden);

  // ------------------------------------------------------------------------------------------------- sort and filter

  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));

  function narrow() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const kept = !kinds.value || row.dataset.kind === kinds.value;
      row.hidden = !(kept && words.every((word) => texts.get(row).includes(word)));
    }
    const shown = visible().length;
    const whole = rows.length === 1 ? "1 row" : `${rows.length} rows`;
    one("#count").textContent = shown === rows.length ? whole : `${shown} of ${whole}`;
  }

  function compare(a, b, number) {
    if (a === b) return 0;
    if (a === "" || b === "") return a === "" ? Infinity : -Infinity; // nothing stays last, whichever way it is sorted
    return number ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true });
  }

  function sort(header) {
    const column = header.cellIndex;
    const turn = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    const by = (row) => row.cells[column].dataset.by;
    const number = rows.every((row) => by(row) === "" || !Number.isNaN(Number(by(row))));
    const sorted = [...rows].sort((a, b) => {
      const order = compare(by(a), by(b), number);
      return Number.isFinite(order) ? turn * order : order;
    });
    all("th", table).forEach((each) => each.removeAttribute("aria-sort"));
    header.setAttribute("aria-sort", turn > 0 ? "ascending" : "descending");
    body.append(...sorted);
  }

  all("th button", table).forEach((button) => button.addEventListener("click", () => sort(button.closest("th"))));
  filter.addEventListener("input", narrow);
  kinds.addEventListener("change", narrow);
  one("form", table).addEventListener("submit", (event) => event.preventDefault());

  // ---------------------------------------------------------------------------------------------------------- charts

  const media = matchMedia("(prefers-color-scheme: dark)");
  const NAMES = ["ink", "dim", "paper", "line", "base", "head", "bad", "good", "open", "quiet", "tone1", "tone2", "tone3", "tone4", "tone5", "tone6"];
  const OPENS = ["overview", "roofline", "bandwidth"]; // charts of rows: a click opens one
  const drawn = new Map(); // figure → its view, or null while it is being made

  function colours() {
    const style = getComputedStyle(document.documentElement);
    return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  function valuesOf(figure) {
    const article = figure.closest("article");
    if (!article) return data.ceilings[figure.dataset.chart] || (figure.dataset.chart === "overview" ? data.overview : data.machine);
    const found = data.cases[Number(article.dataset.number)];
    return figure.dataset.part === undefined ? found : found.parts[Number(figure.dataset.part)];
  }

  async function draw(figure) {
    drawn.set(figure, null);
    delete figure.dataset.drawn;
    const place = one(".drawing", figure) || figure.appendChild(document.createElement("div"));
    place.className = "drawing";
    const chart = CHARTS[figure.dataset.chart](valuesOf(figure), colours(), place.clientWidth);
    const options = { ast: true, renderer: "svg", actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
    const { view } = await vegaEmbed(place, chart, options);
    if (OPENS.includes(figure.dataset.chart)) view.addEventListener("click", (_, item) => item?.datum?.case && go(item.datum));
    figure.dataset.drawn = "";
    drawn.set(figure, view);
  }

  function drawShown() {
    for (const figure of all("figure.chart")) if (!drawn.has(figure) && figure.offsetParent) draw(figure).catch((error) => console.error(error));
  }

  media.addEventListener("change", () => {
    drawn.forEach((view) => view?.finalize());
    drawn.clear();
    drawShown();
  });
  addEventListener("beforeprint", drawShown);

  // ----------------------------------------------------------------------------------------------------- one case

  const CASE = "#case=";
  const IMPLEMENTATION = "&implementation=";

  function go({ case: id, implementation }) {
    const more = implementation === "main" ? "" : IMPLEMENTATION + encodeURIComponent(implementation);
    location.hash = CASE + encodeURIComponent(id) + more;
  }

  function plain(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  function asked() {
    if (!location.hash.startsWith(CASE)) return { id: "", implementation: "" };
    const [id, implementation = ""] = location.hash.slice(CASE.length).split(IMPLEMENTATION);
    return { id: plain(id), implementation: plain(implementation) };
  }

  const caseOf = (row) => plain(link(row).hash.slice(CASE.length).split(IMPLEMENTATION)[0]);
  let last = "";

  function neighbours(id) {
    const order = [...new Set(visible().map(caseOf))];
    const at = order.indexOf(id);
    return at < 0 ? [order[0], undefined] : [order[at - 1], order[at + 1]];
  }

  function show() {
    const { id, implementation } = asked();
    const article = articles.get(id);
    const unknown = one("#unknown");
    unknown.hidden = !id || Boolean(article);
    unknown.textContent = unknown.hidden ? "" : `No such case in this report: ${id}`;
    articles.forEach((each) => each.classList.toggle("open", each === article));
    table.hidden = Boolean(article);
    if (article) {
      neighbours(id).forEach((other, at) => {
        const way = one(at ? ".after" : ".before", article);
        way.hidden = other === undefined || other === id;
        if (!way.hidden) way.href = CASE + encodeURIComponent(other);
      });
      const part = implementation && all(".part", article).find((each) => each.dataset.implementation === implementation);
      const target = (part && one("h3 span[tabindex]", part)) || one("h2", article);
      target.focus({ preventScroll: true });
      (part || document.body).scrollIntoView();
    } else if (last) {
      const row = rows.find((each) => caseOf(each) === last && !each.hidden);
      if (row) link(row).focus();
    }
    last = article ? id : "";
    drawShown();
  }

  // ------------------------------------------------------------------------------------------------------------ keys

  function step(by) {
    const links = visible().map(link);
    const at = links.indexOf(document.activeElement);
    const next = links[at < 0 ? (by > 0 ? 0 : links.length - 1) : at + by];
    if (next) next.focus();
  }

  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const article = one("article.open");
    const typing = /^(INPUT|SELECT|PRE)$/.test(document.activeElement.tagName);
    const press = (selector) => {
      const way = one(selector, article);
      if (!way.hidden) way.click();
    };
    const keys = article
      ? { Escape: () => press(".back"), ArrowLeft: () => press(".before"), ArrowRight: () => press(".after") }
      : { "/": () => filter.focus(), ArrowDown: () => step(1), ArrowUp: () => step(-1) };
    const does = keys[event.key];
    const leaving = document.activeElement === filter && event.key === "ArrowDown";
    if (!does || (typing && !leaving && event.key !== "Escape")) return;
    event.preventDefault();
    does();
  });

  addEventListener("hashchange", show);
  narrow();
  show();
})();

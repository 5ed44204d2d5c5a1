// Small things a page does by itself.
window.dash_clientside = Object.assign(window.dash_clientside || {}, {
  trackside: {
    // The title says which page it is; an anchor in the address is shown once the page is there.
    arrived: (title) => {
      if (title) document.title = title;
      const name = decodeURIComponent(window.location.hash.slice(1));
      if (!name || name === "main") return;
      let tries = 0;
      let top = null;
      const look = () => {
        const found = document.getElementById(name);
        const at = found ? found.getBoundingClientRect().top + window.scrollY : null;
        if (found && at !== top) found.scrollIntoView(); // a page that is still being drawn moves it
        top = at;
        if (tries++ < 40) setTimeout(look, 50);
      };
      look();
    },
    navbar: (opened, shown) => ({ ...shown, collapsed: { ...shown.collapsed, mobile: !opened } }),
    shut: () => false,
    csv: (clicks) => Boolean(clicks),
    // To another page of the explorer, without loading it anew.
    go: (href) => {
      window.history.pushState({}, "", href);
      window.dispatchEvent(new CustomEvent("_dashprivate_pushstate"));
      window.scrollTo(0, 0);
    },
    // A click on a bar goes to the address that the bar has.
    follow: () => {
      const [clicked] = window.dash_clientside.callback_context.triggered;
      const [point] = (clicked && clicked.value && clicked.value.points) || [];
      const href = point && point.customdata;
      if (typeof href === "string" && href.startsWith("/") && !href.startsWith("//")) {
        window.dash_clientside.trackside.go(href);
      }
    },
  },
});

// What is being loaded says for how long it has been.
setInterval(() => {
  for (const each of document.querySelectorAll(".elapsed")) {
    each.dataset.since = each.dataset.since || String(Date.now());
    const seconds = Math.floor((Date.now() - Number(each.dataset.since)) / 1000);
    const text = seconds > 0 ? `(${seconds} s)` : "";
    if (each.textContent !== text) each.textContent = text;
  }
}, 500);

// A login that has ended: the page is loaded again, which leads to the login and back here.
const ask = window.fetch;
window.fetch = async (...asked) => {
  const answer = await ask(...asked);
  if (answer.status === 401) window.location.reload();
  return answer;
};

// A table whose columns go on beyond its edge says so: a phone draws no scroll bar.
setInterval(() => {
  for (const each of document.querySelectorAll(".grid")) {
    const seen = each.querySelector(".ag-center-cols-viewport");
    const more = Boolean(seen) && seen.scrollWidth > seen.clientWidth + 4;
    if (more !== ("scrolls" in each.dataset)) {
      if (more) each.dataset.scrolls = ""; else delete each.dataset.scrolls;
    }
  }
}, 500);

// What is typed into a chooser of time zones replaces the chosen one.
for (const when of ["focusin", "click"]) {
  document.addEventListener(when, (event) => {
    if (event.target.matches(".pick-zone input")) event.target.select();
  });
}

// On paper each table is plain: all of its rows, as wide as the paper, its words wrapped. A grid draws its rows only some
// time after a printer asked for them.
const grids = () => [...document.querySelectorAll(".grid")].map((each) => {
  const api = each.id && window.dash_ag_grid && window.dash_ag_grid.getApi(JSON.parse(each.id));
  return [each, api];
}).filter(([, api]) => api);
const paperLine = (kind, texts, columns) => {
  const line = document.createElement("tr");
  texts.forEach((text, at) => {
    const cell = document.createElement(kind);
    const [, day, clock] = /^(\d{4}-\d\d-\d\d)( \d\d:\d\d:\d\d)$/.exec(text) ?? [];
    if (day) { // a time to the second may be on two lines, and not on three
      cell.append(Object.assign(document.createElement("span"), { className: "unbroken", textContent: day }), clock);
    } else {
      cell.textContent = text;
    }
    const { type, headerClass } = columns[at];
    cell.classList.toggle("right", type === "rightAligned" || headerClass === "ag-right-aligned-header");
    cell.classList.toggle("short", kind === "td" && String(text).length <= 16); // a time, a name: it stays on one line
    line.append(cell);
  });
  return line;
};
const MANY = 11; // columns from which on the letters of a table on paper are smaller, and closer
const paperTable = (api) => {
  const columns = api.getAllDisplayedColumns().map((column) => column.getColDef());
  const table = document.createElement("table");
  table.className = columns.length > MANY ? "paper many" : "paper";
  table.createTHead().append(paperLine("th", columns.map((column) => column.headerName), columns));
  const body = table.createTBody();
  api.forEachNodeAfterFilterAndSort(({ data }) => {
    const texts = columns.map(({ field }) => data[`${field}__text`] ?? data[field] ?? "-");
    body.append(paperLine("td", texts, columns));
  });
  return table;
};
const CHART = 1000; // the widest chart on paper, within the 1,080 pixels that style.css gives a printed page
const charts = () => document.querySelectorAll(".js-plotly-plot .svg-container");
let scheme = null; // of the screen, while it is printed: paper is white, and a printer leaves dark backgrounds out
window.addEventListener("beforeprint", () => {
  scheme ??= document.documentElement.dataset.mantineColorScheme ?? null;
  document.documentElement.dataset.mantineColorScheme = "light";
  for (const [each, api] of grids()) each.after(paperTable(api));
  for (const each of charts()) each.style.zoom = Math.min(1, CHART / each.clientWidth);
});
window.addEventListener("afterprint", () => {
  if (scheme) document.documentElement.dataset.mantineColorScheme = scheme;
  scheme = null;
  for (const each of document.querySelectorAll("table.paper")) each.remove();
  for (const each of charts()) each.style.zoom = "";
});

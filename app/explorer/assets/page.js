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

// On paper every row is there, not only those that fit the table's height.
const tables = () => [...document.querySelectorAll(".grid")].map((each) => {
  const api = each.id && window.dash_ag_grid && window.dash_ag_grid.getApi(JSON.parse(each.id));
  return [each, api];
}).filter(([, api]) => api);
window.addEventListener("beforeprint", () => {
  for (const [each, api] of tables()) {
    each.dataset.height = each.style.height;
    each.style.height = "";
    api.setGridOption("domLayout", "print");
  }
});
window.addEventListener("afterprint", () => {
  for (const [each, api] of tables()) {
    each.style.height = each.dataset.height || "";
    api.setGridOption("domLayout", each.dataset.height ? "normal" : "autoHeight");
  }
});

// What tables need beside their data: one look, texts made by the server, links and bars that are never markup.
// On a phone the columns that matter come first (`context.narrow`), each as narrow as its smaller letters allow.
const PHONE = window.matchMedia("(max-width: 760px)");
const LETTERS = 0.95; // of a phone's table beside a wide one's: style.css
const [EDGES, NARROW_EDGES] = [28, 20]; // pixels of a cell's edges
const [SEEN, WRAPPED] = [300, 140]; // pixels of a table that a phone shows, and of a column there whose texts wrap
const HEADING = 66; // pixels that the word of a heading needs: headings keep their size
const onPhone = (columns) => {
  const place = ({ context }) => (context ? context.narrow : 0);
  let begin = 0;
  return [...columns].sort((a, b) => place(a) - place(b)).map((each) => {
    const wide = each.minWidth ?? 70;
    const small = Math.max(Math.ceil((wide - EDGES) * LETTERS + NARROW_EDGES), Math.min(wide, HEADING));
    const minWidth = each.wrapText && begin < SEEN ? Math.min(small, WRAPPED) : small;
    begin += minWidth;
    return { ...each, width: undefined, minWidth };
  });
};
window.trackside_arrange = (api) => {
  const held = api.getGridOption("context") ?? {};
  const wide = held.wide ?? api.getColumnDefs();
  if (!held.wide && !PHONE.matches) return; // as the server made it
  const arranged = PHONE.matches ? onPhone(wide) : wide;
  const looks = (columns) => JSON.stringify(columns.map(({ field, minWidth }) => [field, minWidth]));
  if (looks(arranged) === looks(api.getColumnDefs())) return;
  api.setGridOption("context", { ...held, wide });
  api.setGridOption("columnDefs", arranged);
};
PHONE.addEventListener("change", () => {
  for (const each of document.querySelectorAll(".grid")) {
    const api = each.id && window.dash_ag_grid.getApi(JSON.parse(each.id));
    if (api) window.trackside_arrange(api);
  }
});

window.dashAgGridFunctions = Object.assign(window.dashAgGridFunctions || {}, {
  // The colours are the page's own, so light and dark need no second look.
  trackside: (base) => base.withParams({
    fontFamily: "inherit",
    fontSize: 13,
    headerFontSize: 12,
    backgroundColor: "var(--panel)",
    foregroundColor: "var(--ink)",
    headerBackgroundColor: "var(--panel)",
    headerTextColor: "var(--dim)",
    borderColor: "var(--line)",
    rowHoverColor: "var(--hover)",
    accentColor: "var(--accent)",
    wrapperBorder: false,
    wrapperBorderRadius: 0,
    columnBorder: false,
    rowBorder: { color: "var(--line)" },
    headerColumnResizeHandleColor: "transparent",
    cellHorizontalPadding: 10,
    rowHeight: 34,
    headerHeight: 36,
  }),
  arranged: ({ api }) => setTimeout(() => api.isDestroyed() || window.trackside_arrange(api)),
  formatted: (params) => {
    const text = params.data && params.data[params.colDef.field + "__text"];
    if (text !== undefined && text !== null) return text;
    return params.value === undefined || params.value === null ? "" : String(params.value);
  },
  // The whole text of a cell, in which nothing hides.
  whole: (params) => {
    const text = params.data && params.data[params.colDef.field + "__whole"];
    return text === undefined ? params.value : text;
  },
  // A file has numbers alone, so its headings have the units that a page writes beside each number.
  withUnit: ({ column }) => {
    const { headerName: shown, context } = column.getColDef();
    const headerName = shown.replaceAll("\u2011", "-"); // it only keeps units on one line
    return context && context.unit ? `${headerName} (${context.unit})` : headerName;
  },
  // A spreadsheet must not run what a user wrote into a job's name.
  plain: (params) => {
    const value = params.value;
    if (value === null || value === undefined) return "";
    return typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? "'" + value : value;
  },
});

window.dashAgGridComponentFunctions = Object.assign(window.dashAgGridComponentFunctions || {}, {
  Cell: (props) => {
    const h = React.createElement;
    const field = props.colDef.field;
    const text = props.data[field + "__text"];
    const shown = text === undefined ? props.value : text;
    const bar = props.bar && typeof props.value === "number";
    const parts = [];
    if (props.swatch && props.data[props.swatch]) {
      parts.push(h("span", { key: "dot", className: "dot", style: { backgroundColor: props.data[props.swatch] } }));
    }
    const href = props.href && props.data[props.href];
    // A text that was shortened has the whole one as its title.
    const value = props.data[field + "__whole"] === undefined ? props.value : props.data[field + "__whole"];
    const whole = typeof value === "string" && value !== shown ? value : undefined;
    const label = shown === null || shown === undefined ? "-" : String(shown);
    if (bar) {
      const top = props.bar === true ? 1 : props.bar;
      parts.push(h("span", { key: "bar", className: "cell-bar" },
        h("span", { style: { width: Math.max(0, Math.min(100, (100 * props.value) / top)) + "%" } })));
      parts.push(h("span", { key: "text", className: "cell-bar-text" }, label));
      return h("span", { className: "cell-with-bar" }, parts);
    }
    const inside = href && href.startsWith("/") && !href.startsWith("//");
    parts.push(inside
      ? h("a", {
          key: "a", href: href, className: "link", title: whole,
          onClick: (event) => {
            if (event.metaKey || event.ctrlKey || event.shiftKey || event.button) return;
            event.preventDefault();
            event.stopPropagation();
            window.dash_clientside.trackside.go(href);
          },
        }, label)
      : h("span", { key: "text", title: whole }, label));
    return h("span", null, parts);
  },
});

// A table that can be searched and sorted. Only the rows in sight exist, so 10,000 or 100,000 of them scroll alike.
const ROW = 28; // pixels, as in page.css
const MARGIN = 10; // rows drawn above and below those in sight

function matcher(text) {
  if (/[*?]/.test(text)) {
    const pattern = text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    const glob = new RegExp(`^${pattern}$`, "i");
    return (name) => glob.test(name);
  }
  const part = text.toLowerCase();
  return (name) => name.toLowerCase().includes(part);
}

// heads: for each column its title and width, and `value(row)`, which the table sorts by, null where it is unknown.
//   `format` makes it a column of numbers; `cell(row)` draws what is not just the value; `down` sorts largest first.
// rows: in the order shown at first.
// names(row): the texts that are searched; keep(row): whether other filters leave the row; isChosen(row): marks it.
// choose(row), tick(row): what Enter and Space do with the row that has the focus. searched(rows): called with the rows found.
function makeTable({ heads, rows, names, keep = () => true, isChosen = () => false, choose = () => {}, tick = () => {}, searched = () => {} }) {
  const box = $("table");
  let active = 0; // the row that the keyboard is at, by its place among those found
  const draw = (atLeast = 0) => {
    const first = atLeast ? 0 : Math.max(0, Math.floor((box.scrollTop - ROW) / ROW) - MARGIN);
    const last = Math.max(atLeast, Math.ceil((box.scrollTop + box.clientHeight) / ROW) + MARGIN);
    const hadFocus = $("table-body").contains(document.activeElement);
    $("table-body").replaceChildren(...table.found.slice(first, last).map((row, i) => {
      const line = make("div", isChosen(row) ? "row chosen" : "row", ...heads.map((head) => {
        const value = head.value(row);
        const text = value === null ? "" : head.format ? head.format(value) : value;
        const cell = head.cell ? head.cell(row) : make("span", head.format ? "num" : "", text);
        cell.title ||= cell.textContent;
        cell.setAttribute("role", "gridcell");
        return cell;
      }));
      line.style.top = `${(first + i) * ROW}px`;
      line.setAttribute("role", "row");
      line.setAttribute("aria-rowindex", first + i + 2);
      line.setAttribute("aria-selected", String(isChosen(row)));
      line.tabIndex = first + i === active ? 0 : -1;
      line.dataset.at = first + i;
      return line;
    }));
    if (hadFocus) focusActive(false);
  };
  const focusActive = (scroll) => {
    if (scroll) {
      const top = active * ROW;
      const view = box.clientHeight - 2 * ROW;
      if (top < box.scrollTop) box.scrollTop = top; else if (top > box.scrollTop + view) box.scrollTop = top - view;
      draw();
    }
    $("table-body").querySelector(`[data-at="${active}"]`)?.focus({ preventScroll: true });
  };
  const search = () => {
    const match = matcher($("search").value.trim());
    table.found = rows.filter((row) => keep(row) && names(row).some(match));
    if (table.sorted !== null) {
      const { by, down } = table.sorted;
      const values = new Map(table.found.map((row) => [row, heads[by].value(row)]));
      const sign = down ? -1 : 1;
      table.found.sort((a, b) => {
        const [x, y] = [values.get(a), values.get(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    titles.forEach((title, i) => title.setAttribute("aria-sort", i !== table.sorted?.by ? "none" : table.sorted.down ? "descending" : "ascending"));
    $("found").textContent = `${number(table.found.length)} of ${number(rows.length)}`;
    box.setAttribute("aria-rowcount", table.found.length + 1);
    $("table-body").style.height = `${table.found.length * ROW}px`;
    box.scrollTop = 0;
    active = 0;
    searched(table.found);
    draw();
  };
  const titles = heads.map((head, i) => {
    const title = make("span", head.format ? "num" : "", head.title);
    const sort = () => {
      table.sorted = { by: i, down: table.sorted?.by === i ? !table.sorted.down : Boolean(head.down) };
      changed("filter");
    };
    title.title = head.hint || "";
    title.tabIndex = 0;
    title.setAttribute("role", "columnheader");
    if (!head.title) title.setAttribute("aria-label", head.hint);
    title.addEventListener("click", sort);
    title.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { sort(); event.preventDefault(); event.stopPropagation(); } });
    return title;
  });
  const headline = make("div", "row", ...titles);
  headline.setAttribute("role", "row");
  headline.setAttribute("aria-rowindex", 1);
  $("table-head").append(headline);
  box.setAttribute("aria-colcount", heads.length);
  box.style.setProperty("--columns", heads.map((column) => column.width).join(" "));
  box.addEventListener("keydown", (event) => {
    if ($("table-head").contains(event.target)) return;
    const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 2);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      active = Math.max(0, Math.min(table.found.length - 1, event.target === box ? active : active + steps[event.key]));
      focusActive(true);
    } else if (event.key === "Enter" && table.found.length) {
      choose(table.found[active]);
    } else if (event.key === " " && event.target.tagName !== "INPUT" && table.found.length) {
      tick(table.found[active]);
    } else {
      return;
    }
    event.preventDefault();
  });
  $("table-body").addEventListener("mousedown", (event) => {
    const line = event.target.closest("[data-at]");
    if (line) active = Number(line.dataset.at);
  });
  const later = (work) => {
    let frame = 0;
    return () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(() => work()); };
  };
  $("search").addEventListener("input", later(search));
  box.addEventListener("scroll", later(draw));
  window.addEventListener("resize", later(draw));
  const sortBy = (title, down) => {
    const by = heads.findIndex((head) => head.title === title);
    table.sorted = by < 0 ? null : { by, down };
  };
  const table = { found: rows, heads, sorted: null, draw, search, sortBy };
  return table;
}

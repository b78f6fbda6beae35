// The table of columns, which can be searched and sorted. Only the rows in sight exist, so 10,000 or 100,000 scroll alike.
const ROW = 28; // pixels, as in page.css
const MARGIN = 10; // rows drawn above and below those in sight
const tableBox = $("table");
const tableBody = $("table-body");
let found = columns.name.map((_, column) => column); // the columns that are shown
let active = 0; // the row that the keyboard is at, by its place among those found

function matcher(text) {
  if (/[*?]/.test(text)) {
    const pattern = text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    const glob = new RegExp(`^${pattern}$`, "i");
    return (name) => glob.test(name);
  }
  const part = text.toLowerCase();
  return (name) => name.toLowerCase().includes(part);
}

// Whether the encoding, the bucket and the finding that were chosen leave a column.
function keep(column) {
  return (state.bucket === null || columns.bucket[column] === state.bucket)
    && (state.finding === "" || foundKind.get(column) === state.finding)
    && (state.encoding === "" || chunks[column][state.encoding] > 0
      || columnNodes[column].some((node) => groups.some((group) => group.encoding[node] === state.encoding)));
}

function drawTable(atLeast = 0) {
  const first = atLeast ? 0 : Math.max(0, Math.floor((tableBox.scrollTop - ROW) / ROW) - MARGIN);
  const last = Math.max(atLeast, Math.ceil((tableBox.scrollTop + tableBox.clientHeight) / ROW) + MARGIN);
  const hadFocus = tableBody.contains(document.activeElement);
  tableBody.replaceChildren(...found.slice(first, last).map((column, i) => {
    const isChosen = state.chosen === column;
    const line = make("div", isChosen ? "row chosen" : "row", ...heads.map((head) => {
      const value = head.value(column);
      const text = value === null ? "" : head.format ? head.format(value) : value;
      const cell = head.cell ? head.cell(column) : make("span", head.format ? "num" : "", text);
      cell.title ||= cell.textContent;
      cell.setAttribute("role", "gridcell");
      return cell;
    }));
    line.style.top = `${(first + i) * ROW}px`;
    line.setAttribute("role", "row");
    line.setAttribute("aria-rowindex", first + i + 2);
    line.setAttribute("aria-selected", String(isChosen));
    line.tabIndex = first + i === active ? 0 : -1;
    line.dataset.at = first + i;
    return line;
  }));
  if (hadFocus) focusActive();
}

function focusActive() {
  tableBody.querySelector(`[data-at="${active}"]`)?.focus({ preventScroll: true });
}

function searchTable() {
  const match = matcher($("search").value.trim());
  found = columns.name.map((_, column) => column).filter((column) => keep(column) && (match(columns.name[column]) || match(columns.type[column])));
  const { by, down } = state.sorted ?? {};
  if (by !== undefined) {
    const values = new Map(found.map((column) => [column, heads[by].value(column)]));
    const sign = down ? -1 : 1;
    found.sort((a, b) => {
      const [x, y] = [values.get(a), values.get(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return x < y ? -sign : x > y ? sign : 0;
    });
  }
  titles.forEach((title, i) => title.setAttribute("aria-sort", i !== by ? "none" : down ? "descending" : "ascending"));
  $("found").textContent = `${number(found.length)} of ${number(count)}`;
  $("tick-found").disabled = !found.length;
  tableBox.setAttribute("aria-rowcount", found.length + 1);
  tableBody.style.height = `${found.length * ROW}px`;
  tableBox.scrollTop = 0;
  active = 0;
  drawTable();
}

const titles = heads.map((head, i) => {
  const title = make("span", head.format ? "num" : "", head.title);
  const sort = () => {
    state.sorted = { by: i, down: state.sorted?.by === i ? !state.sorted.down : Boolean(head.down) };
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
tableBox.setAttribute("aria-colcount", heads.length);
tableBox.style.setProperty("--columns", heads.map((head) => head.width).join(" "));

tableBox.addEventListener("keydown", (event) => {
  if ($("table-head").contains(event.target)) return;
  const page = Math.max(1, Math.floor(tableBox.clientHeight / ROW) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (event.key in steps) {
    active = Math.max(0, Math.min(found.length - 1, event.target === tableBox ? active : active + steps[event.key]));
    const top = active * ROW;
    const view = tableBox.clientHeight - 2 * ROW;
    if (top < tableBox.scrollTop) tableBox.scrollTop = top; else if (top > tableBox.scrollTop + view) tableBox.scrollTop = top - view;
    drawTable();
    focusActive();
  } else if (event.key === "Enter" && found.length) {
    choose(found[active]);
  } else if (event.key === " " && event.target.tagName !== "INPUT" && found.length && hasLayout) {
    tick(found[active]);
    changed("ticks");
  } else {
    return;
  }
  event.preventDefault();
});
tableBody.addEventListener("mousedown", (event) => {
  const line = event.target.closest("[data-at]");
  if (line) active = Number(line.dataset.at);
});
const later = (work) => {
  let frame = 0;
  return () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(() => work()); };
};
$("search").addEventListener("input", later(searchTable));
tableBox.addEventListener("scroll", later(drawTable));
window.addEventListener("resize", later(drawTable));

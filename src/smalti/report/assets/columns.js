// What the table shows of each column.
const bound = (column, part) => (summary(column, part) === null ? null : String(summary(column, part)));
const knows = (part) => columns.name.some((_, column) => summary(column, part) !== null);

// The heads of the table that there is data for. `value(column)` is what the table sorts by, null where it is unknown.
// `format` makes text of a number; `cell(column)` draws what is not just the value; `down` sorts largest first.
const heads = [
  hasLayout && { title: "", width: "34px", hint: "ticked first", value: (column) => (state.ticked.has(column) ? 0 : 1), cell: tickBox },
  { title: "column", width: "minmax(150px, 3fr)", value: (column) => columns.name[column], cell: nameCell },
  { title: "type", width: "minmax(60px, 1fr)", value: (column) => columns.type[column] },
  knows("nulls") && { title: "nulls", width: "78px", format: number, down: true, value: (column) => summary(column, "nulls") },
  model.values && { title: "distinct", width: "84px", format: (many) => `~${number(many)}`, down: true, hint: "an estimate, within about 5 %", value: (column) => model.values.distinct[column] },
  knows("min") && { title: "min", width: "minmax(56px, 1fr)", value: (column) => bound(column, "min") },
  knows("max") && { title: "max", width: "minmax(56px, 1fr)", value: (column) => bound(column, "max") },
  model.values && { title: "values", width: "92px", hint: "how values spread from min to max, by up to 512 of them", value: (column) => model.values.histogram[column], cell: histogramCell },
  isFile && { title: "bucket", width: "72px", format: number, value: (column) => columns.bucket[column] },
  hasLayout && { title: "encodings", width: "104px", hint: "row groups by encoding", value: (column) => chunks[column].join(), cell: encodingsCell },
  hasLayout && { title: "unpacked", width: "98px", format: bytes, down: true, value: (column) => unpacked[column] },
  hasLayout && {
    title: "in file", width: "94px", format: bytes, down: true, value: (column) => stored[column],
    cell: (column) => make("span", "num", (isShare(column) ? "~" : "") + bytes(Math.round(stored[column]))),
    hint: "bytes in the file; ~ where the bucket is compressed as one and this is a share",
  },
].filter(Boolean);

function choose(column) {
  state.chosen = column;
  changed("chosen");
}

function tick(column) {
  if (!state.ticked.delete(column)) state.ticked.add(column);
}

function tickBox(column) {
  const box = make("input");
  box.type = "checkbox";
  box.tabIndex = -1; // the row has the focus, and Space ticks it
  box.checked = state.ticked.has(column);
  box.setAttribute("aria-label", `tick ${columns.name[column]}`);
  box.addEventListener("change", () => { tick(column); changed("tick"); });
  return make("span", "", box);
}

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = getComputedStyle(document.body).font;
const nameHead = () => [...$("table-head").querySelectorAll("[role=columnheader]")].find((title) => title.textContent === "column");

// A name that is too long loses its middle: names of wide tables often begin alike.
function nameCell(column) {
  const full = columns.name[column];
  const name = make("span", "name");
  const letter = ruler.measureText(full).width / full.length;
  const room = Math.max(8, Math.floor(((nameHead()?.clientWidth ?? 300) - 18) / (letter || 8)) - 1);
  name.dataset.name = full;
  name.textContent = full.length <= room ? full : `${full.slice(0, Math.floor((room - 1) / 3))}…${full.slice(-Math.ceil(((room - 1) * 2) / 3))}`;
  name.title = full;
  name.setAttribute("aria-label", full);
  name.addEventListener("click", () => choose(column));
  return name;
}

function histogramCell(column) {
  const text = model.values.histogram[column] ?? "";
  const cell = make("span", "histogram", ...[...text].map((bar) => {
    const piece = make("i");
    piece.style.height = `${(100 * " ▁▂▃▄▅▆▇█".indexOf(bar)) / 8}%`;
    return piece;
  }));
  cell.title = text && `from ${bound(column, "min")} to ${bound(column, "max")}`;
  return cell;
}

// A piece for each encoding, as wide as the share of row groups that have it.
function encodingsCell(column) {
  const shown = chunks[column].map((many, code) => [code, many]).filter(([, many]) => many);
  const cell = make("span", "", bar(shown));
  cell.title = shown.map(([code, many]) => `${model.encodings[code]} ${number(many)}`).join(", ");
  cell.setAttribute("aria-label", cell.title);
  return cell;
}

// The table of columns: only the rows in sight exist, so 10,000 or 100,000 of them scroll alike.
const ROW = 28;
const MARGIN = 10;
const HEADS = [
  ["", "", "tick"], ["#", "num", "position"], ["column", "", "name"], ["type", "", "type"], ["bucket", "num", "bucket"],
  ["encodings", "", "encoding"], ["unpacked", "num", "unpacked"], ["in file", "num", "stored"], ["nulls", "num", "nulls"],
  ["min", "", "low"], ["max", "", "high"],
];
let found = [];

const keys = {
  tick: (column) => (state.ticked.has(column) ? 0 : 1),
  position: (column) => columns.position[column],
  name: (column) => columns.name[column],
  type: (column) => columns.type[column],
  bucket: (column) => columns.bucket[column],
  encoding: (column) => groups.map((group) => group.encoding[columnNodes[column][0]]).join(""),
  unpacked: (column) => unpacked[column],
  stored: (column) => stored[column],
  nulls: (column) => (summaries[column] ? summaries[column].nulls : -1),
  low: (column) => (summaries[column] && summaries[column].low !== null ? String(summaries[column].low) : ""),
  high: (column) => (summaries[column] && summaries[column].high !== null ? String(summaries[column].high) : ""),
};

function matcher(text) {
  if (!text) return () => true;
  if (/[*?]/.test(text)) {
    const pattern = text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    const glob = new RegExp(`^${pattern}$`, "i");
    return (name) => glob.test(name);
  }
  const part = text.toLowerCase();
  return (name) => name.toLowerCase().includes(part);
}

function search() {
  const match = matcher(state.search.trim());
  found = [];
  for (let column = 0; column < count; column += 1) {
    if (state.bucket !== null && columns.bucket[column] !== state.bucket) continue;
    if (state.encoding !== "" && !groups.some((group) => columnNodes[column].some((node) => group.encoding[node] === state.encoding))) continue;
    if (match(columns.name[column])) found.push(column);
  }
  const key = keys[state.sort];
  const sign = state.down ? -1 : 1;
  const values = new Map(found.map((column) => [column, key(column)]));
  found.sort((a, b) => {
    const [x, y] = [values.get(a), values.get(b)];
    return x < y ? -sign : x > y ? sign : columns.position[a] - columns.position[b];
  });
  $("found").textContent = `${number(found.length)} of ${number(count)}`;
  $("tick-found").disabled = !found.length;
  const chip = $("bucket-chip");
  chip.hidden = state.bucket === null;
  chip.textContent = `bucket ${state.bucket} ✕`;
  $("table-body").style.height = `${found.length * ROW}px`;
  drawHead();
  drawRows();
}

function drawHead() {
  const row = make("div", "row");
  HEADS.forEach(([title, className, key]) => {
    const arrow = state.sort === key && title ? (state.down ? " ↓" : " ↑") : "";
    const head = make("span", className, title + arrow);
    head.setAttribute("role", "columnheader");
    head.title = title === "in file" ? "bytes in the file; ~ where the bucket is compressed as one and this is a share" : "";
    head.addEventListener("click", () => {
      state.down = state.sort === key ? !state.down : ["unpacked", "stored", "nulls"].includes(key);
      state.sort = key;
      search();
    });
    row.append(head);
  });
  $("table-head").replaceChildren(row);
}

function drawRows() {
  const table = $("table");
  const first = Math.max(0, Math.floor((table.scrollTop - ROW) / ROW) - MARGIN);
  const last = Math.min(found.length, Math.ceil((table.scrollTop + table.clientHeight) / ROW) + MARGIN);
  const rows = [];
  for (let i = first; i < last; i += 1) rows.push(drawRow(found[i], i));
  $("table-body").replaceChildren(...rows);
}

function drawRow(column, place) {
  const row = make("div", `row${state.chosen === column ? " chosen" : ""}`);
  row.style.top = `${place * ROW}px`;
  row.setAttribute("role", "row");
  const tick = make("input");
  tick.type = "checkbox";
  tick.checked = state.ticked.has(column);
  tick.setAttribute("aria-label", `tick ${columns.name[column]}`);
  tick.addEventListener("change", () => {
    if (tick.checked) state.ticked.add(column); else state.ticked.delete(column);
    changed("tick");
  });
  const box = make("span");
  box.append(tick);
  const name = make("span", "name", columns.name[column]);
  name.title = columns.name[column];
  name.addEventListener("click", () => { state.chosen = column; changed("chosen"); });
  const type = make("span", "", columns.type[column]);
  type.title = columns.type[column];
  const summary = summaries[column];
  const shown = (value) => (value === null || value === undefined ? "" : String(value));
  const low = make("span", "", shown(summary && summary.low));
  const high = make("span", "", shown(summary && summary.high));
  low.title = low.textContent;
  high.title = high.textContent;
  row.append(
    box, make("span", "num", number(columns.position[column])), name, type, make("span", "num", number(columns.bucket[column])), chips(column),
    make("span", "num", bytes(unpacked[column])), make("span", "num", (isShare[column] ? "~" : "") + bytes(Math.round(stored[column]))),
    make("span", "num", summary ? number(summary.nulls) : ""), low, high,
  );
  return row;
}

function chips(column) {
  const cell = make("span");
  const line = make("span", "chips");
  const step = Math.max(1, Math.ceil(groups.length / 40));
  const seen = new Set();
  for (let i = 0; i < groups.length; i += step) {
    const code = groups[i].encoding[columnNodes[column][0]];
    const chip = make("i");
    chip.style.background = `var(--e${code})`;
    seen.add(model.encodings[code]);
    line.append(chip);
  }
  cell.title = [...seen].join(", ");
  cell.append(line);
  return cell;
}

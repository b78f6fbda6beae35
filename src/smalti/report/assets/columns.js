// The table of columns of a file.
const codes = (column) => groups.map((group) => group.encoding[columnNodes[column][0]]).join("");
const summary = (column, part) => summaries[column]?.[part] ?? null;
const bound = (column, part) => (summary(column, part) === null ? null : String(summaries[column][part]));

const table = makeTable({
  heads: [
    { title: "", width: "34px", value: (column) => (state.ticked.has(column) ? 0 : 1), cell: tickBox },
    { title: "#", width: "66px", format: number, value: (column) => columns.position[column] },
    { title: "column", width: "minmax(170px, 1fr)", value: (column) => columns.name[column], cell: nameCell },
    { title: "type", width: "104px", value: (column) => columns.type[column] },
    { title: "bucket", width: "78px", format: number, value: (column) => columns.bucket[column] },
    { title: "encodings", width: "98px", value: codes, cell: encodingsCell },
    { title: "unpacked", width: "96px", format: bytes, down: true, value: (column) => unpacked[column] },
    {
      title: "in file", width: "94px", format: bytes, down: true, value: (column) => stored[column],
      cell: (column) => make("span", "num", (isShare[column] ? "~" : "") + bytes(Math.round(stored[column]))),
      hint: "bytes in the file; ~ where the bucket is compressed as one and this is a share",
    },
    { title: "nulls", width: "78px", format: number, down: true, value: (column) => summary(column, "nulls") },
    { title: "min", width: "94px", value: (column) => bound(column, "low") },
    { title: "max", width: "94px", value: (column) => bound(column, "high") },
  ],
  rows: columns.name.map((_, column) => column).sort((a, b) => columns.position[a] - columns.position[b]),
  by: 1,
  names: (column) => [columns.name[column]],
  keep: (column) => (state.bucket === null || columns.bucket[column] === state.bucket)
    && (state.encoding === "" || groups.some((group) => columnNodes[column].some((node) => group.encoding[node] === state.encoding))),
  isChosen: (column) => state.chosen === column,
  searched: (found) => { $("tick-found").disabled = !found.length; },
});

function tickBox(column) {
  const tick = make("input");
  tick.type = "checkbox";
  tick.checked = state.ticked.has(column);
  tick.setAttribute("aria-label", `tick ${columns.name[column]}`);
  tick.addEventListener("change", () => {
    if (tick.checked) state.ticked.add(column); else state.ticked.delete(column);
    changed("tick");
  });
  return make("span", "", tick);
}

function nameCell(column) {
  const name = make("span", "name", columns.name[column]);
  name.addEventListener("click", () => { state.chosen = column; changed("chosen"); });
  return name;
}

// A piece for each row group, or for some of them where there are more than fit.
function encodingsCell(column) {
  const step = Math.max(1, Math.ceil(groups.length / 40));
  const shown = [...codes(column)].filter((_, i) => i % step === 0);
  const cell = make("span", "", bar(shown.map((code) => [code, 1])));
  cell.title = [...new Set(shown)].map((code) => model.encodings[code]).join(", ");
  return cell;
}

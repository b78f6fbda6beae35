// Puts the parts of the page together, and keeps what was chosen in the address, so that it can be shared.
const unpackedBytes = isFile ? sum(groups.map((group) => sum(group.raw))) + model.schemaBlock.uncompressed_size : sum(unpacked);
$("facts").append(...[
  ["files", isFile ? null : number(model.numFiles)],
  ["rows", number(model.rows)], ["columns", number(count)], ["row groups", groups.length ? number(groups.length) : null],
  ["buckets", model.buckets ? number(model.buckets) : null], ["size", bytes(model.size)], ["compression", model.compression],
  ["ratio", hasLayout && model.size ? `${(unpackedBytes / model.size).toFixed(1)}x` : null],
  ["with statistics", groups.length ? `${number(Object.keys(model.statistics).length)} columns` : null],
  ["skipped", model.skipped ? `${number(model.skipped)} files` : null],
].filter(([, value]) => value !== null).map(([name, value]) => make("div", "", make("dt", "", name), make("dd", "", value))));

$("map-part").hidden = !hasLayout;
$("map-title").textContent = isFile ? "The file" : "The files";
$("map-hint").textContent = isFile
  ? "Every row group is a band, and every bucket a block in it, as wide as its bytes. Colours show the share of each encoding; a strong edge on top marks a paged bucket. Click a block to see its columns."
  : "Every file is a band, as wide as its bytes. Colours show the share of each encoding.";
$("layout").textContent = model.layout ? `Layout: ${model.layout}.` : "";

$("findings").hidden = !model.findings.length;
$("findings").replaceChildren(...model.findings.map(({ kind, words }) => {
  const chip = make("button", "", words);
  chip.type = "button";
  chip.dataset.kind = kind;
  chip.addEventListener("click", () => { state.finding = state.finding === kind ? "" : kind; changed("filter"); });
  return chip;
}));

const only = $("only");
only.append(new Option("any encoding", ""));
model.encodings.forEach((name, code) => only.append(new Option(name, String(code))));
[only, $("tick-found"), $("untick")].forEach((tool) => { tool.hidden = !hasLayout; });
only.addEventListener("change", () => { state.encoding = only.value; changed("filter"); });
$("search").addEventListener("change", () => saveState());
$("bucket-chip").addEventListener("click", () => { state.bucket = null; changed("filter"); });
$("tick-found").addEventListener("click", () => { found.forEach((column) => state.ticked.add(column)); changed("ticks"); });
$("untick").addEventListener("click", () => { state.ticked.clear(); changed("ticks"); });

// Redraw what depends on a choice of the user's: "filter", "tick" (one column), "ticks" (many) or "chosen".
function changed(what) {
  if (what === "filter") {
    $("bucket-chip").hidden = state.bucket === null;
    $("bucket-chip").textContent = `bucket ${state.bucket} ✕`;
    $("findings").querySelectorAll("button").forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.kind === state.finding)));
    searchTable();
    drawMap();
  }
  if (what === "tick" || what === "ticks") { drawProjection(); drawMap(); }
  if (what === "ticks") drawTable(); // the browser has drawn a single tick, and a new row would lose the focus
  if (what === "chosen") { drawDetail(); drawTable(); }
  saveState();
}

// The address holds names of columns, which mean the same for the next version of the file. Thousands do not fit.
const MAX_SHARED = 200;
function saveState() {
  const parts = new URLSearchParams();
  if (state.ticked.size && state.ticked.size <= MAX_SHARED) [...state.ticked].forEach((column) => parts.append("column", columns.name[column]));
  if ($("search").value.trim()) parts.set("search", $("search").value.trim());
  if (state.encoding !== "") parts.set("encoding", model.encodings[state.encoding]);
  if (state.bucket !== null) parts.set("bucket", state.bucket);
  if (state.finding !== "") parts.set("finding", state.finding);
  if (state.chosen !== null) parts.set("shown", columns.name[state.chosen]);
  if (state.sorted !== null) parts.set("sort", `${heads[state.sorted.by].title}${state.sorted.down ? " down" : ""}`);
  history.replaceState(null, "", parts.size ? `#${parts}` : location.pathname + location.search);
}

function loadState() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const places = new Map(columns.name.map((name, column) => [name, column]));
  const known = (name) => (places.has(name) ? [places.get(name)] : []);
  state.ticked = new Set(hasLayout ? parts.getAll("column").flatMap(known) : []);
  [state.chosen = null] = parts.getAll("shown").flatMap(known);
  $("search").value = parts.get("search") ?? "";
  const code = model.encodings.indexOf(parts.get("encoding"));
  state.encoding = only.value = code < 0 ? "" : String(code);
  state.bucket = parts.has("bucket") && Number(parts.get("bucket")) < numBuckets ? Number(parts.get("bucket")) : null;
  state.finding = model.findings.some(({ kind }) => kind === parts.get("finding")) ? parts.get("finding") : "";
  const by = heads.findIndex(({ title }) => title === parts.get("sort")?.replace(/ down$/, ""));
  if (by >= 0) state.sorted = { by, down: parts.get("sort").endsWith(" down") };
}

$("theme").addEventListener("click", drawMap);
dark.addEventListener("change", drawMap);
window.addEventListener("resize", drawMap);
window.addEventListener("hashchange", start);
window.addEventListener("beforeprint", () => { drawTable(200); drawMap(); });
window.addEventListener("afterprint", () => drawTable());

function start() {
  loadState();
  changed("filter");
  drawProjection();
  drawDetail();
}

computeShares();
drawLegend();
drawTree();
start();
document.documentElement.dataset.ready = "yes";

// Puts the parts of a file's page together.
const unpackedBytes = sum(groups.map((group) => sum(group.raw))) + model.schemaBlock.uncompressed_size;
drawFacts([
  ["rows", number(model.rows)], ["columns", number(count)], ["row groups", number(groups.length)], ["buckets", number(model.buckets)],
  ["size", bytes(model.size)], ["compression", model.compression], ["ratio", model.size ? `${(unpackedBytes / model.size).toFixed(1)}x` : "-"],
  ["with statistics", `${number(Object.keys(model.statistics).length)} columns`],
]);

$("layout").textContent = `Layout: ${model.layout}.`;

const only = $("only");
only.append(new Option("any encoding", ""));
model.encodings.forEach((name, code) => only.append(new Option(name, String(code))));
only.addEventListener("change", () => { state.encoding = only.value; changed("filter"); });
$("bucket-chip").addEventListener("click", () => { state.bucket = null; changed("filter"); });
$("tick-found").addEventListener("click", () => { table.found.forEach((column) => state.ticked.add(column)); changed("ticks"); });
$("untick").addEventListener("click", () => { state.ticked.clear(); changed("ticks"); });

// Redraw what depends on a choice of the user's: "filter", "tick" (one column), "ticks" (many) or "chosen".
function changed(what) {
  if (what === "filter") {
    $("bucket-chip").hidden = state.bucket === null;
    $("bucket-chip").textContent = `bucket ${state.bucket} ✕`;
    table.search();
    drawMap();
  }
  if (what === "tick" || what === "ticks") { drawProjection(); drawMap(); }
  if (what === "ticks") table.draw(); // the browser has drawn a single tick, and a new row would lose the focus
  if (what === "chosen") { drawDetail(); table.draw(); }
}

$("theme").addEventListener("click", drawMap);
dark.addEventListener("change", drawMap);
window.addEventListener("resize", drawMap);

computeShares();
drawLegend();
drawProjection();
table.search();
drawMap();
document.documentElement.dataset.ready = "yes";

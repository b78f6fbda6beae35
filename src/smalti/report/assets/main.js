// Puts the parts together.
$("file").textContent = model.file || "Mosaic file";
[
  ["rows", number(model.rows)], ["columns", number(count)], ["row groups", number(groups.length)], ["buckets", number(model.buckets)],
  ["size", bytes(model.size)], ["compression", model.compression],
  ["ratio", model.size ? `${((sum(groups.map((group) => sum(group.raw))) + model.schemaBlock.uncompressed_size) / model.size).toFixed(1)}x` : "-"],
  ["with statistics", `${number(Object.keys(model.statistics).length)} columns`],
].forEach(([name, value]) => {
  const fact = make("div");
  fact.append(make("dt", "", name), make("dd", "", value));
  $("facts").append(fact);
});

const only = $("only");
only.append(new Option("any encoding", ""));
model.encodings.forEach((name, code) => only.append(new Option(name, String(code))));

let waiting = 0;
$("search").addEventListener("input", (event) => {
  state.search = event.target.value;
  clearTimeout(waiting);
  waiting = setTimeout(() => { $("table").scrollTop = 0; search(); }, 60);
});
only.addEventListener("change", () => { state.encoding = only.value; changed("filter"); });
$("bucket-chip").addEventListener("click", () => { state.bucket = null; changed("filter"); });
$("tick-found").addEventListener("click", () => { found.forEach((column) => state.ticked.add(column)); changed("ticks"); });
$("untick").addEventListener("click", () => { state.ticked.clear(); changed("ticks"); });
let frame = 0;
$("table").addEventListener("scroll", () => {
  cancelAnimationFrame(frame);
  frame = requestAnimationFrame(drawRows);
});

listeners.push((what) => {
  if (what === "filter") { $("table").scrollTop = 0; search(); drawMap(); }
  if (what === "tick" || what === "ticks") { drawProjection(); drawMap(); }
  if (what === "ticks") drawRows(); // a single tick is drawn already, and keeps the focus
  if (what === "chosen") { drawDetail(); drawRows(); }
});

const dark = window.matchMedia("(prefers-color-scheme: dark)");
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  root.dataset.theme = isDark ? "light" : "dark";
  drawMap();
});
dark.addEventListener("change", drawMap);
window.addEventListener("resize", () => { drawMap(); drawRows(); });

computeShares();
drawLegend();
drawProjection();
search();
drawMap();
document.documentElement.dataset.ready = "yes";

// The map: a band for each row group with a block for each bucket, or a band for each file of a table, on a canvas so that
// 100,000 blocks stay quick.
const GROUPS_A_PAGE = 24;
const LABEL = 118;
const canvas = $("map");
let mapPage = 0;
let pointed = null; // the block that the keyboard is at, by its place in `blocks`
let blocks = []; // {x, y, w, h, group, bucket} of what is drawn, for the pointer

// A canvas cannot resolve the variables of page.css by itself.
const css = (name) => {
  canvas.style.color = `var(${name})`;
  return getComputedStyle(canvas).color;
};
const groupBytes = groups.map((group) => sum(group.size));
const bands = isFile
  ? groups.map((group, index) => ({ label: `row group ${number(index)}`, rows: group.rows, bytes: groupBytes[index], sizes: group.size, mode: group.mode }))
  : model.files.map((file) => ({ label: file.name.split("/").pop(), rows: file.rows, bytes: file.size, sizes: [file.size], mode: "m" }));
const largest = Math.max(1, ...bands.map((band) => band.bytes));
let colourBy = "bytes";
let shares = [];

// By band and block: the share of each encoding in its bytes or columns.
function computeShares() {
  const amounts = !isFile ? model.files.map((file) => [file.encodings]) : groups.map((group) => bucketNodes.map((list) => {
    const found = model.encodings.map(() => 0);
    list.forEach((node) => { found[group.encoding[node]] += colourBy === "bytes" ? group.bytes[node] : 1; });
    return found;
  }));
  shares = amounts.map((band) => band.map((parts) => (sum(parts) ? parts.map((part) => part / sum(parts)) : [0, 0, 0, 1])));
}

function drawMap() {
  const shown = bands.slice(mapPage * GROUPS_A_PAGE, (mapPage + 1) * GROUPS_A_PAGE);
  const band = shown.length === 1 ? 96 : shown.length <= 6 ? 56 : 30;
  const gap = shown.length <= 6 ? 12 : 6;
  const width = canvas.parentElement.clientWidth;
  const height = Math.max(1, shown.length) * (band + gap);
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const pen = canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const colours = [0, 1, 2, 3].map((code) => css(`--e${code}`));
  const [ink, soft, edge, accent] = ["--ink", "--soft", "--edge", "--accent"].map(css);
  const reads = state.ticked.size ? new Set([...state.ticked].map((column) => columns.bucket[column])) : null;
  blocks = [];
  if (!shown.length) {
    pen.fillStyle = soft;
    pen.fillText("There are no rows.", 0, band / 2);
  }
  shown.forEach((group, i) => {
    const index = mapPage * GROUPS_A_PAGE + i;
    const y = i * (band + gap);
    pen.fillStyle = ink;
    pen.fillText(group.label, 0, y + band / 2 - (band > 40 ? 16 : 7), LABEL - 8);
    pen.fillStyle = soft;
    pen.fillText(band > 40 ? `${number(group.rows)} rows` : `${number(group.rows)} rows · ${bytes(group.bytes)}`, 0, y + band / 2 + (band > 40 ? 0 : 7), LABEL - 8);
    if (band > 40) pen.fillText(bytes(group.bytes), 0, y + band / 2 + 16, LABEL - 8);
    const room = (width - LABEL) / largest;
    let x = LABEL;
    group.sizes.forEach((size, bucket) => {
      const w = size * room;
      const space = w > 3 ? 1 : 0;
      pen.globalAlpha = isFile && reads && !reads.has(bucket) ? 0.22 : 1;
      let top = y;
      shares[index][bucket].forEach((share, code) => {
        if (!share) return;
        pen.fillStyle = colours[code];
        pen.fillRect(x, top, Math.max(w - space, 0.4), share * band);
        top += share * band;
      });
      if (group.mode[bucket] === "p") {
        pen.fillStyle = edge;
        pen.fillRect(x, y, Math.max(w - space, 0.4), 3);
      }
      pen.globalAlpha = 1;
      if ((isFile && state.bucket === bucket) || pointed === blocks.length) {
        pen.strokeStyle = accent;
        pen.lineWidth = 2;
        pen.strokeRect(x, y + 1, Math.max(w - space, 2), band - 2);
      }
      blocks.push({ x, y, w, h: band, group: index, bucket });
      x += w;
    });
  });
  canvas.dataset.blocks = blocks.length;
  const pages = Math.ceil(bands.length / GROUPS_A_PAGE);
  $("map-pages").hidden = pages < 2;
  $("map-where").textContent = `${isFile ? "row groups" : "files"} ${number(mapPage * GROUPS_A_PAGE)} to ${number(mapPage * GROUPS_A_PAGE + shown.length - 1)} of ${number(bands.length)}`;
  $("map-back").disabled = mapPage === 0;
  $("map-on").disabled = mapPage >= pages - 1;
}

function blockAt({ offsetX: x, offsetY: y }) {
  return blocks.find((block) => x >= block.x && x < block.x + block.w && y >= block.y && y < block.y + block.h);
}

function showTip(block, left, top) {
  const tip = $("tip");
  tip.hidden = !block;
  if (!block) return;
  if (isFile) tip.replaceChildren(...bucketTip(block)); else tip.replaceChildren(...fileTip(model.files[block.group]));
  const room = canvas.parentElement.clientWidth - tip.offsetWidth - 4;
  tip.style.left = `${Math.max(0, Math.min(left, room))}px`;
  tip.style.top = `${top}px`;
}

function bucketTip(block) {
  const group = groups[block.group];
  const list = bucketNodes[block.bucket];
  const names = [...new Set(list.map((node) => columns.name[nodes.column[node]]))];
  const mode = { m: "monolithic", p: "paged", e: "empty" }[group.mode[block.bucket]];
  return [
    make("b", "", `bucket ${block.bucket}, row group ${block.group}`),
    make("div", "", `${mode}: ${bytes(group.size[block.bucket])}, ${bytes(group.raw[block.bucket])} unpacked`),
    make("div", "", `${number(names.length)} columns: ${names[0]}${names.length > 1 ? ` … ${names[names.length - 1]}` : ""}`),
    ...encodingLines((code) => list.filter((node) => group.encoding[node] === String(code)).length, number),
  ];
}

function fileTip(file) {
  return [
    make("b", "", file.name),
    make("div", "", `${bytes(file.size)}, ${number(file.rows)} rows, ${number(file.columns)} columns, ${number(file.groups)} row groups`),
    ...encodingLines((code) => file.encodings[code], (size) => percent(size, sum(file.encodings))),
  ];
}

// A line for each encoding that there is something of.
function encodingLines(amount, format) {
  return model.encodings.flatMap((name, code) => (amount(code) ? [make("div", "", key(code, `${name} ${format(amount(code))}`))] : []));
}

function chooseBlock(block) {
  if (!isFile) return;
  state.bucket = block && state.bucket !== block.bucket ? block.bucket : null;
  changed("filter");
}

canvas.addEventListener("mousemove", (event) => {
  const box = canvas.parentElement.getBoundingClientRect();
  showTip(blockAt(event), event.clientX - box.left + 14, event.clientY - box.top + 16);
});
canvas.addEventListener("mouseleave", () => { $("tip").hidden = true; });
canvas.addEventListener("click", (event) => chooseBlock(blockAt(event)));
canvas.addEventListener("keydown", (event) => {
  const at = pointed ?? -1;
  const beside = (lines) => blocks.findIndex((block) => block.group === blocks[at]?.group + lines && block.bucket === (blocks[at]?.bucket ?? 0));
  const steps = {
    ArrowRight: () => at + 1,
    ArrowLeft: () => at - 1,
    ArrowDown: () => beside(1),
    ArrowUp: () => beside(-1),
    Home: () => 0,
    End: () => blocks.length - 1,
  };
  if (steps[event.key]) {
    const next = steps[event.key]();
    if (blocks[next]) pointed = next;
    drawMap();
    const block = blocks[pointed];
    if (block) showTip(block, block.x, block.y + block.h + 6);
    event.preventDefault();
  } else if ((event.key === "Enter" || event.key === " ") && blocks[pointed]) {
    chooseBlock(blocks[pointed]);
    event.preventDefault();
  } else if (event.key === "Escape") {
    pointed = null;
    $("tip").hidden = true;
    drawMap();
  }
});
canvas.addEventListener("blur", () => { pointed = null; $("tip").hidden = true; drawMap(); });
$("map-back").addEventListener("click", () => { mapPage -= 1; drawMap(); });
$("map-on").addEventListener("click", () => { mapPage += 1; drawMap(); });

function drawLegend() {
  const total = sum(encodingBytes);
  model.encodings.forEach((name, code) => {
    const chunks = `${number(encodingCount[code])} column chunks`;
    $("legend").append(key(code, make("b", "", name), `${chunks}, ${percent(encodingBytes[code], total)} of bytes`));
  });
  if (!isFile) return;
  const choice = make("select");
  choice.id = "colour-by";
  choice.append(new Option("bytes before compression", "bytes"), new Option("number of columns", "columns"));
  choice.addEventListener("change", () => { colourBy = choice.value; computeShares(); drawMap(); });
  $("legend").append(make("label", "legend-tool", "colour by ", choice));
  const parts = [
    ["buckets", sum(groupBytes)], ["schema block", model.schemaBlock.size], ["index", model.index.size], ["footer", model.footer],
  ];
  $("tail").append(...parts.map(([name, size]) => make("span", "", `${name} `, make("b", "", bytes(size)), ` (${percent(size, model.size)})`)));
}

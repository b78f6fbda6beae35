// What a read of the ticked columns fetches: whole monolithic buckets, but of paged ones the directory and some slots.
// `merge` counts requests as the reader makes them for local files: ranges that touch become one.
function merge(ranges) {
  const sorted = ranges.filter((range) => range[1] > 0).sort((a, b) => a[0] - b[0]);
  return sorted.filter(([offset], i) => i === 0 || offset !== sum(sorted[i - 1])).length;
}

function projectionCost(ticked) {
  const wanted = new Map(); // bucket: set of physical columns
  ticked.forEach((column) => {
    const bucket = columns.bucket[column];
    if (!wanted.has(bucket)) wanted.set(bucket, new Set());
    columnNodes[column].forEach((node) => wanted.get(bucket).add(node));
  });
  let read = 0;
  let requests = 0;
  groups.forEach((group) => {
    const first = [];
    const second = [];
    wanted.forEach((list, bucket) => {
      const whole = group.mode[bucket] !== "p" || list.size === bucketNodes[bucket].length;
      first.push([group.offset[bucket], whole ? group.size[bucket] : group.head[bucket]]);
      if (whole) return;
      let at = group.offset[bucket] + group.head[bucket];
      bucketNodes[bucket].forEach((node) => {
        if (list.has(node)) second.push([at, group.stored[node]]);
        at += group.stored[node];
      });
    });
    read += sum([...first, ...second].map((range) => range[1]));
    requests += merge(first) + merge(second);
  });
  return { read, requests, buckets: wanted.size };
}

function drawProjection() {
  const box = $("projection");
  const total = sum(groupBytes);
  const cost = projectionCost(state.ticked);
  if (!state.ticked.size) {
    box.replaceChildren(make("p", "hint", `Tick columns in the table. Reading all of them fetches ${bytes(total)}.`));
    delete box.dataset.bytes;
    return;
  }
  const share = total ? cost.read / total : 0;
  box.dataset.bytes = cost.read;
  box.dataset.requests = cost.requests;
  const fill = make("div");
  fill.style.width = `${100 * share}%`;
  const facts = [
    ["columns", `${number(state.ticked.size)} of ${number(count)}`],
    ["buckets", `${number(cost.buckets)} of ${number(numBuckets)}`],
    ["requests", number(cost.requests)],
    ["before that, once", `${bytes(model.schemaBlock.size + model.index.size + model.footer)} of schema, index and footer`],
  ];
  box.replaceChildren(
    make("div", "big", bytes(cost.read)),
    make("div", "hint", `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} % of the ${bytes(total)} in buckets`),
    make("div", "meter", fill),
    make("table", "", ...facts.map(([name, value]) => make("tr", "", make("th", "", name), make("td", "", value)))),
  );
}

function drawDetail() {
  const box = $("detail");
  const column = state.chosen;
  if (column === null) return;
  const place = `${columns.type[column]}, column ${number(columns.position[column])}, bucket ${number(columns.bucket[column])}`;
  const records = model.statistics[column];
  const list = make("table");
  const head = list.insertRow();
  ["row group", "encoding", "unpacked", "slot"].forEach((name, i) => head.append(make("th", i === 0 || i > 1 ? "num" : "", name)));
  groups.slice(0, 200).forEach((group, index) => {
    columnNodes[column].forEach((node) => {
      const row = list.insertRow();
      const entries = group.entries[node] ? `, ${number(group.entries[node])} entries` : "";
      const nulls = group.nulls[node] === "1" ? ", nulls" : "";
      row.append(
        make("td", "num", number(index)),
        make("td", "", `${nodes.path[node] ? `${nodes.path[node]}: ` : ""}${model.encodings[group.encoding[node]]}${entries}${nulls}`),
        make("td", "num", bytes(group.bytes[node])),
        make("td", "num", group.stored[node] < 0 ? "shared" : bytes(group.stored[node])),
      );
    });
    if (records && records[index]) {
      const [nulls, low, high] = records[index];
      const text = make("td", "", `${number(nulls)} nulls${low === null ? "" : `, from ${low} to ${high}`}`);
      text.colSpan = 3;
      list.insertRow().append(make("td", "num"), text);
    }
  });
  box.replaceChildren(make("h3", "", columns.name[column]), make("p", "hint", place), make("div", "scroll", list));
  if (!records) box.append(make("p", "hint", "No statistics were written for this column."));
  if (groups.length > 200) box.append(make("p", "hint", `… and ${number(groups.length - 200)} more row groups`));
}

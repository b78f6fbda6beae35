// What a read of the ticked columns fetches: whole monolithic buckets, but of paged ones the directory and some slots.
// An estimate of a table whose files do not have the same columns in the same buckets.
function projectionCost(ticked) {
  const { head, slots } = model.sums;
  if (!head.length) return { read: sum([...ticked].map((column) => stored[column])), requests: null, buckets: null, isEstimate: true };
  const buckets = [...new Set([...ticked].map((column) => columns.bucket[column]))];
  const read = sum(buckets.map((bucket) => head[bucket])) + sum([...ticked].map((column) => slots[column]));
  return { read, requests: isFile ? countRequests(ticked, buckets) : null, buckets: buckets.length };
}

// Requests as the reader makes them for a local file: first whole buckets and directories, then slots.
function countRequests(ticked, buckets) {
  const wanted = new Set([...ticked].flatMap((column) => columnNodes[column]));
  let requests = 0;
  groups.forEach((group) => {
    const first = [];
    const second = [];
    buckets.forEach((bucket) => {
      const whole = group.mode[bucket] !== "p" || bucketNodes[bucket].every((node) => wanted.has(node));
      first.push([group.offset[bucket], whole ? group.size[bucket] : group.head[bucket]]);
      if (whole) return;
      let at = group.offset[bucket] + group.head[bucket];
      bucketNodes[bucket].forEach((node) => {
        if (wanted.has(node)) second.push([at, group.stored[node]]);
        at += group.stored[node];
      });
    });
    requests += merge(first) + merge(second);
  });
  return requests;
}

// How many ranges are left if those that touch become one.
function merge(ranges) {
  const sorted = ranges.filter((range) => range[1] > 0).sort((a, b) => a[0] - b[0]);
  return sorted.filter(([offset], i) => i === 0 || offset !== sum(sorted[i - 1])).length;
}

// The columns as an argument of smalti.read_table, in the order of the file.
function columnsArgument() {
  const names = [...state.ticked].sort((a, b) => a - b).map((column) => JSON.stringify(columns.name[column]));
  return `columns=[${names.join(", ")}]`;
}

function copyButton(text) {
  const button = make("button", "", "copy");
  button.type = "button";
  button.addEventListener("click", () => {
    const done = () => { button.textContent = "copied"; };
    const select = () => { getSelection().selectAllChildren($("argument")); document.execCommand("copy"); done(); };
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, select); else select();
  });
  return button;
}

function drawProjection() {
  const box = $("projection");
  $("projection-part").hidden = !hasLayout;
  const total = sum(numBuckets ? [...model.sums.head, ...model.sums.slots] : stored);
  if (!state.ticked.size) {
    box.replaceChildren(make("p", "hint", `Tick columns in the table. Reading all of them fetches ${bytes(Math.round(total))}.`));
    delete box.dataset.bytes;
    return;
  }
  const cost = projectionCost(state.ticked);
  const share = total ? cost.read / total : 0;
  box.dataset.bytes = cost.read;
  box.dataset.requests = cost.requests;
  const fill = make("div");
  fill.style.width = `${Math.min(100, 100 * share)}%`;
  const facts = [["columns", `${number(state.ticked.size)} of ${number(count)}`]];
  if (cost.buckets !== null) facts.push(["buckets", `${number(cost.buckets)} of ${number(numBuckets)}`]);
  if (cost.requests !== null) facts.push(["requests", number(cost.requests)]);
  if (isFile) facts.push(["before that, once", `${bytes(model.schemaBlock.size + model.index.size + model.footer)} of schema, index and footer`]);
  const argument = columnsArgument();
  const code = make("code", "", argument.length > 600 ? `${argument.slice(0, 600)} …` : argument);
  code.id = "argument";
  box.replaceChildren(
    make("div", "big", `${cost.isEstimate ? "~" : ""}${bytes(Math.round(cost.read))}`),
    make("div", "hint", `${(100 * share).toFixed(share < 0.1 ? 2 : 1)} % of the ${bytes(Math.round(total))} in buckets`),
    make("div", "meter", fill),
    make("table", "", ...facts.map(([name, value]) => make("tr", "", make("th", "", name), make("td", "", value)))),
    make("div", "argument", code, copyButton(argument)),
  );
}

function drawDetail() {
  const box = $("detail");
  const column = state.chosen;
  if (column === null) return;
  const home = columns.bucket[column] === null ? "" : `, bucket ${number(columns.bucket[column])}`;
  const place = `${columns.type[column]}, column ${number(column)}${home}`;
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
  const known = [
    ["nulls", summary(column, "nulls"), number], ["distinct", model.values?.distinct[column] ?? null, (many) => `~${number(many)}, an estimate`],
    ["from", summary(column, "min"), String], ["to", summary(column, "max"), String],
    ["in file", hasLayout ? Math.round(stored[column]) : null, (size) => `${isShare(column) ? "~" : ""}${bytes(size)}`], ["unpacked", hasLayout ? unpacked[column] : null, bytes],
  ].filter(([, value]) => value !== null).map(([name, value, format]) => make("tr", "", make("th", "", name), make("td", "", format(value))));
  box.replaceChildren(make("h3", "", columns.name[column]), make("p", "hint", place), make("table", "", ...known));
  if (groups.length) box.append(make("div", "scroll", list));
  if (groups.length && !records) box.append(make("p", "hint", "No statistics were written for this column."));
  if (groups.length > 200) box.append(make("p", "hint", `… and ${number(groups.length - 200)} more row groups`));
}

// What is computed from the model once: sums by column, physical columns by bucket and by column.
const { columns, nodes, groups } = model;
const count = columns.name.length;
const hasLayout = groups.length > 0 || model.sums !== null || (model.files.length === 0 && model.values === null);
const numBuckets = groups.length ? groups[0].size.length : model.sums ? model.sums.whole.length : 0;

// The physical columns of each bucket and of each column. A list or map has several: itself and its children.
const bucketNodes = Array.from({ length: numBuckets }, () => []);
const columnNodes = Array.from({ length: count }, () => []);
nodes.column.forEach((column, node) => {
  columnNodes[column].push(node);
  bucketNodes[nodes.bucket[node]].push(node);
});

const unpacked = new Float64Array(count);
const stored = new Float64Array(count); // exact for paged buckets, a share of the bucket's bytes for monolithic ones
const isShare = new Uint8Array(count);
const chunks = Array.from({ length: count }, () => [0, 0, 0, 0]); // row groups of each column by encoding
const encodingBytes = [0, 0, 0, 0];
const encodingCount = [0, 0, 0, 0];
groups.forEach((group) => {
  bucketNodes.forEach((list, bucket) => {
    const raw = sum(list.map((node) => group.bytes[node]));
    list.forEach((node) => {
      const column = nodes.column[node];
      const code = Number(group.encoding[node]);
      unpacked[column] += group.bytes[node];
      encodingBytes[code] += group.bytes[node];
      encodingCount[code] += 1;
      if (nodes.path[node] === "") chunks[column][code] += 1;
      const share = raw ? (group.size[bucket] * group.bytes[node]) / raw : 0;
      stored[column] += group.stored[node] < 0 ? share : group.stored[node];
      if (group.stored[node] < 0) isShare[column] = 1;
    });
  });
});
if (model.sums) {
  for (let column = 0; column < count; column += 1) {
    unpacked[column] = model.sums.unpacked[column];
    stored[column] = model.sums.stored[column];
    isShare[column] = Number(model.sums.shared[column]);
    chunks[column] = model.sums.chunks[column];
    chunks[column].forEach((many, code) => { encodingCount[code] += many; });
  }
  model.files.forEach((file) => file.encodings.forEach((size, code) => { encodingBytes[code] += size; }));
}

// What is known of the values of a column: measured, or from statistics over all row groups, where nulls add up and bounds
// widen. A row group with values but no bounds makes them unknown.
const summaries = {};
Object.entries(model.statistics).forEach(([column, records]) => {
  const known = records.every((record, i) => record && (record[1] !== null || record[0] === groups[i].rows));
  const bounds = known ? records.filter((record) => record[1] !== null) : [];
  summaries[column] = {
    nulls: sum(records.map((record) => (record ? record[0] : 0))),
    low: bounds.reduce((low, record) => (low === null || record[1] < low ? record[1] : low), null),
    high: bounds.reduce((high, record) => (high === null || record[2] > high ? record[2] : high), null),
  };
});
const summary = (column, part) => (model.values ? model.values[part][column] : null) ?? summaries[column]?.[part] ?? null;

// What is worth knowing first: columns that are empty, constant, identical or nearly empty.
const findings = model.findings ?? [];
const foundKind = new Map(findings.flatMap(({ kind, columns: places }) => places.map((column) => [column, kind])));

const state = { ticked: new Set(), bucket: null, encoding: "", chosen: null, finding: "" };

// The parts of the model, and what is computed from it once.
const { columns, nodes, groups } = model;
const count = columns.name.length;
const isFile = model.schemaBlock !== undefined; // one file with its whole layout; of a table there are sums only
const hasLayout = model.files.length > 0;
// By column: bytes in the file, bytes before compression, and row groups by encoding. Where buckets are compressed as one,
// columns have a share of the bytes.
const { stored, unpacked, chunks } = model.sums;
const isShare = (column) => stored[column] > model.sums.slots[column];
const numBuckets = model.sums.head.length;
const encodingBytes = model.encodings.map((_, code) => sum(model.files.map((file) => file.encodings[code])));
const encodingCount = model.encodings.map((_, code) => sum(chunks.map((many) => many[code])));

// The physical columns of each bucket and of each column. A list or map has several: itself and its children.
const bucketNodes = Array.from({ length: numBuckets }, () => []);
const columnNodes = Array.from({ length: count }, () => []);
nodes.column.forEach((column, node) => {
  columnNodes[column].push(node);
  bucketNodes[nodes.bucket[node]].push(node);
});

// What is known of the values of a column: measured, or from statistics over all row groups, where nulls add up and bounds
// widen. A row group with values but no bounds makes them unknown.
const summaries = {};
Object.entries(model.statistics).forEach(([column, records]) => {
  const known = records.every((record, i) => record && (record[1] !== null || record[0] === groups[i].rows));
  const bounds = known ? records.filter((record) => record[1] !== null) : [];
  summaries[column] = {
    nulls: sum(records.map((record) => (record ? record[0] : 0))),
    min: bounds.reduce((low, record) => (low === null || record[1] < low ? record[1] : low), null),
    max: bounds.reduce((high, record) => (high === null || record[2] > high ? record[2] : high), null),
  };
});
const summary = (column, part) => (model.values ? model.values[part][column] : null) ?? summaries[column]?.[part] ?? null;

// What is worth knowing first: columns that are empty, constant, identical or nearly empty.
const foundKind = new Map(model.findings.flatMap(({ kind, columns: places }) => places.map((column) => [column, kind])));

// What was chosen on the page. `sorted` is the place of a head of the table, and whether the largest come first.
const state = { ticked: new Set(), bucket: null, encoding: "", chosen: null, finding: "", sorted: null };

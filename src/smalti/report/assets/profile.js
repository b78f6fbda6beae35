// The page of a profile: how many column chunks have each encoding, and a table of the columns.
const ENCODINGS = 6; // the place of "DICT 3, PLAIN 1" in a row

// [code, name, count] of each encoding of a row.
const encodingsOf = (row) => (row[ENCODINGS] === null ? [] : row[ENCODINGS].split(", ").map((part) => {
  const [name, count] = part.split(" ");
  return [model.encodings.indexOf(name), name, Number(count)];
}));

const heads = [
  ["column", "minmax(180px, 2fr)"], ["type", "minmax(90px, 1fr)"], ["nulls", "90px", number],
  ["distinct", "90px", (count) => `~${number(count)}`, "an estimate, within about 5 %"],
  ["min", "minmax(90px, 1fr)"], ["max", "minmax(90px, 1fr)"], ["encodings", "minmax(190px, 1.5fr)", undefined, "row groups by encoding"],
  ["in files", "94px", bytes, "bytes in the files; a share where a bucket is compressed as one"],
  ["unpacked", "94px", bytes, "bytes before compression"],
].map(([title, width, format, hint], i) => ({ title, width, format, hint, down: Boolean(format), value: (row) => row[i] }));
heads[ENCODINGS].cell = (row) => {
  const cell = make("span", "keys", ...encodingsOf(row).map(([code, name, count]) => key(code, `${name} ${number(count)}`)));
  cell.title = row[ENCODINGS] ?? "";
  return cell;
};

drawFacts([
  ["rows", number(model.numRows)], ["columns", number(model.rows.length)], ["files", number(model.numFiles)], ["size", bytes(model.numBytes)],
  ...(model.numSkipped ? [["skipped", `${number(model.numSkipped)} files`]] : []),
]);
const counts = model.encodings.map(() => 0);
model.rows.forEach((row) => encodingsOf(row).forEach(([code, , count]) => { counts[code] += count; }));
const total = sum(counts);
$("encodings").hidden = !total; // only Mosaic files have them, and the columns of the table that follow
$("bar").append(bar(counts.map((count, code) => [code, count])));
$("legend").append(...counts.map((count, code) => key(code, make("b", "", model.encodings[code]), `${number(count)} column chunks, ${percent(count, total)}`)));
makeTable({ heads: total ? heads : heads.slice(0, ENCODINGS), rows: model.rows, names: (row) => [row[0], row[1]] }).search();
document.documentElement.dataset.ready = "yes";

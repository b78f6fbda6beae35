// A table that can be searched and sorted. Only the rows in sight exist, so 10,000 or 100,000 of them scroll alike.
const ROW = 28; // pixels, as in page.css
const MARGIN = 10; // rows drawn above and below those in sight

function matcher(text) {
  if (/[*?]/.test(text)) {
    const pattern = text.replace(/[.+^${}()|[\]\\]/g, "\\$&").replace(/\*/g, ".*").replace(/\?/g, ".");
    const glob = new RegExp(`^${pattern}$`, "i");
    return (name) => glob.test(name);
  }
  const part = text.toLowerCase();
  return (name) => name.toLowerCase().includes(part);
}

// heads: for each column its title and width, and `value(row)`, which the table sorts by, null where it is unknown.
//   `format` makes it a column of numbers; `cell(row)` draws what is not just the value; `down` sorts largest first.
// rows: in the order shown at first; `by` is the head they are sorted by already, if any.
// names(row): the texts that are searched; keep(row): whether other filters leave the row; isChosen(row): marks it.
// searched(rows): called with the rows found.
function makeTable({ heads, rows, by, names, keep = () => true, isChosen = () => false, searched = () => {} }) {
  const box = $("table");
  let down = false;
  const draw = () => {
    const first = Math.max(0, Math.floor((box.scrollTop - ROW) / ROW) - MARGIN);
    const last = Math.ceil((box.scrollTop + box.clientHeight) / ROW) + MARGIN;
    $("table-body").replaceChildren(...table.found.slice(first, last).map((row, i) => {
      const line = make("div", isChosen(row) ? "row chosen" : "row", ...heads.map((head) => {
        const value = head.value(row);
        const text = value === null ? "" : head.format ? head.format(value) : value;
        const cell = head.cell ? head.cell(row) : make("span", head.format ? "num" : "", text);
        cell.title ||= cell.textContent;
        cell.setAttribute("role", "cell");
        return cell;
      }));
      line.style.top = `${(first + i) * ROW}px`;
      line.setAttribute("role", "row");
      return line;
    }));
  };
  const search = () => {
    const match = matcher($("search").value.trim());
    table.found = rows.filter((row) => keep(row) && names(row).some(match));
    if (by !== undefined) {
      const values = new Map(table.found.map((row) => [row, heads[by].value(row)]));
      const sign = down ? -1 : 1;
      table.found.sort((a, b) => {
        const [x, y] = [values.get(a), values.get(b)];
        if (x === null || y === null) return (x === null) - (y === null);
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    titles.forEach((title, i) => title.setAttribute("aria-sort", i !== by ? "none" : down ? "descending" : "ascending"));
    $("found").textContent = `${number(table.found.length)} of ${number(rows.length)}`;
    $("table-body").style.height = `${table.found.length * ROW}px`;
    box.scrollTop = 0;
    searched(table.found);
    draw();
  };
  const titles = heads.map((head, i) => {
    const title = make("span", head.format ? "num" : "", head.title);
    const sort = () => {
      down = by === i ? !down : Boolean(head.down);
      by = i;
      search();
    };
    title.title = head.hint || "";
    title.tabIndex = 0;
    title.setAttribute("role", "columnheader");
    title.addEventListener("click", sort);
    title.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    return title;
  });
  $("table-head").append(make("div", "row", ...titles));
  box.style.setProperty("--columns", heads.map((column) => column.width).join(" "));
  const later = (work) => {
    let frame = 0;
    return () => { cancelAnimationFrame(frame); frame = requestAnimationFrame(work); };
  };
  $("search").addEventListener("input", later(search));
  box.addEventListener("scroll", later(draw));
  window.addEventListener("resize", later(draw));
  const table = { found: rows, draw, search };
  return table;
}

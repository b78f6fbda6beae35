// Columns by the beginning of their names: a tree whose branches end at _ . - / : or where a number begins.
function branch(prefix, list) {
  return { prefix, list, bytes: sum(list.map((column) => stored[column])), parts: null };
}

function grow(node) {
  if (node.parts) return node.parts;
  const groupsOf = new Map();
  node.list.forEach((column) => {
    const rest = columns.name[column].slice(node.prefix.length);
    const [head] = rest.match(/^[^_.\-/:\d]*(?:[_.\-/:]+|\d+[_.\-/:]*|$)/) ?? [rest];
    const next = node.prefix + (head || rest);
    if (!groupsOf.has(next)) groupsOf.set(next, []);
    groupsOf.get(next).push(column);
  });
  node.parts = [...groupsOf].map(([prefix, list]) => branch(prefix, list)).sort((a, b) => b.bytes - a.bytes);
  // A branch that holds everything says nothing: its own branches take its place.
  while (node.parts.length === 1 && node.parts[0].list.length > 1 && node.parts[0].prefix !== node.prefix) {
    node.prefix = node.parts[0].prefix;
    node.parts = null;
    return grow(node);
  }
  return node.parts;
}

const MAX_BRANCHES = 100;
function treeItem(node, level, all) {
  const many = node.list.length;
  const isLeaf = many === 1;
  const item = make("li");
  item.setAttribute("role", "treeitem");
  item.setAttribute("aria-level", level);
  item.tabIndex = -1;
  const name = isLeaf ? columns.name[node.list[0]] : `${node.prefix}*`;
  const fill = make("i");
  fill.style.width = `${(100 * node.bytes) / (all || 1)}%`;
  const line = make("span", "branch", make("span", "twig", isLeaf ? "" : "▸"), make("span", "what", name),
    make("span", "many", isLeaf ? "" : number(many)), make("span", "num", bytes(Math.round(node.bytes))), make("span", "share", fill));
  line.title = `${name}: ${number(many)} columns, ${bytes(Math.round(node.bytes))}, ${percent(node.bytes, all)}`;
  item.append(line);
  if (!isLeaf) item.setAttribute("aria-expanded", "false");
  const open = (wanted) => {
    if (isLeaf) return;
    item.setAttribute("aria-expanded", String(wanted));
    line.firstChild.textContent = wanted ? "▾" : "▸";
    item.querySelector(":scope > ul")?.remove();
    if (wanted) item.append(treeList(grow(node), level + 1, all));
  };
  const find = () => {
    if (isLeaf) { choose(node.list[0]); return; }
    $("search").value = `${node.prefix}*`;
    changed("filter");
  };
  line.firstChild.addEventListener("click", (event) => { open(item.getAttribute("aria-expanded") !== "true"); event.stopPropagation(); });
  line.addEventListener("click", () => { item.focus(); find(); });
  item.addEventListener("keydown", (event) => {
    if (event.target !== item) return;
    const expanded = item.getAttribute("aria-expanded") === "true";
    const items = [...$("tree").querySelectorAll("[role=treeitem]")];
    const at = items.indexOf(item);
    const steps = {
      ArrowDown: () => items[at + 1]?.focus(),
      ArrowUp: () => items[at - 1]?.focus(),
      ArrowRight: () => (expanded ? items[at + 1]?.focus() : open(true)),
      ArrowLeft: () => (expanded ? open(false) : item.parentElement.closest("[role=treeitem]")?.focus()),
      Enter: find,
      " ": find,
    };
    if (!steps[event.key]) return;
    event.preventDefault();
    event.stopPropagation();
    steps[event.key]();
  });
  return item;
}

function treeList(list, level, all) {
  const items = list.slice(0, MAX_BRANCHES).map((node) => treeItem(node, level, all));
  const box = make("ul", "", ...items);
  box.setAttribute("role", "group");
  if (list.length > MAX_BRANCHES) box.append(make("li", "hint", `… and ${number(list.length - MAX_BRANCHES)} more`));
  return box;
}

function drawTree() {
  const root = branch("", columns.name.map((_, column) => column));
  $("tree-part").hidden = !hasLayout || !root.bytes;
  if ($("tree-part").hidden) return;
  const items = [...treeList(grow(root), 1, root.bytes).children];
  $("tree").append(...items);
  if (items[0]) items[0].tabIndex = 0;
}

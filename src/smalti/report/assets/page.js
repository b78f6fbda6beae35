// What all pages use: the data, elements, numbers as text, colours of encodings, the theme.
const model = JSON.parse(document.querySelector("script[type='application/json']").textContent);
const $ = (id) => document.getElementById(id);
const make = (tag, className = "", ...content) => {
  const element = document.createElement(tag);
  element.className = className;
  element.append(...content);
  return element;
};
const sum = (list) => list.reduce((a, b) => a + b, 0);
const number = (value) => value.toLocaleString("en-US");
const percent = (part, whole) => `${((100 * part) / (whole || 1)).toFixed(1)} %`;
const bytes = (value) => {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let left = value;
  while (left >= 1023.95 && unit < units.length - 1) { left /= 1024; unit += 1; }
  return unit === 0 ? `${number(value)} B` : `${left.toFixed(1)} ${units[unit]}`;
};

// A square in the colour of an encoding, and what it stands for.
function key(code, ...parts) {
  const swatch = make("i", "swatch");
  swatch.style.background = `var(--e${code})`;
  return make("span", "key", swatch, ...parts);
}

// A bar with a piece for each [code of an encoding, weight].
function bar(pieces) {
  return make("span", "bar", ...pieces.map(([code, weight]) => {
    const piece = make("i");
    piece.style.background = `var(--e${code})`;
    piece.style.flexGrow = weight;
    return piece;
  }));
}

const dark = window.matchMedia("(prefers-color-scheme: dark)");
$("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  root.dataset.theme = isDark ? "light" : "dark";
});

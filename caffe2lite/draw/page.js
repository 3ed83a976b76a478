"use strict";
const { nets, steps } = JSON.parse(document.getElementById("facts").textContent);
const $ = (id) => document.getElementById(id);
const view = $("view"), panel = $("panel"), map = $("map");
const HEAD = 62; // pixels: the heads of the lanes, and some air
const SVG = "http://www.w3.org/2000/svg";
let net, svg, sheet, scene, heads, links, size, before, after, makers, takers;
let index = 0, folds = false; // which net is shown, and whether its scopes are folded
let k = 1, tx = 0, ty = 0, chosen = null, hits = [], hit = -1;

const make = (name, props = {}, ...children) => {
  const made = Object.assign(document.createElement(name), props);
  made.append(...children.filter((c) => c !== null && c !== undefined));
  return made;
};
const group = (pairs) => {
  const found = new Map();
  for (const [key, value] of pairs) found.has(key) ? found.get(key).push(value) : found.set(key, [value]);
  return found;
};

function withFolds(full) {
  const nodes = full.fold.nodes.map(({ title, device, members }) =>
    members.length > 1 || full.nodes[members[0]].scope
      ? { type: title, device, in: [], out: [], members } : full.nodes[members[0]]);
  return { ...full, nodes, operators: nodes.filter((n) => n.type).length, boxes: full.fold.boxes, links: full.fold.links };
}
function load(which, folded = false) {
  index = Number(which);
  folds = folded && Boolean(nets[index].fold);
  net = folds ? withFolds(nets[index]) : nets[index];
  $("fold").hidden = !nets[index].fold;
  $("fold").setAttribute("aria-pressed", folds);
  $("back").hidden = !net.parent;
  if (net.parent) $("back").textContent = `◂ ${nets[net.parent[0]].name || "outer net"}`;
  else $("net").value = index;
  const picture = document.querySelector(`template[data-net="${index}${folds ? "f" : ""}"]`).content.firstElementChild.cloneNode(true);
  sheet = picture.cloneNode(true);
  size = [Number(picture.getAttribute("width")), Number(picture.getAttribute("height"))];
  for (const name of ["viewBox", "width", "height"]) picture.removeAttribute(name);
  view.replaceChildren(picture);
  svg = picture;
  scene = svg.querySelector(".scene");
  heads = svg.querySelector(".heads");
  links = scene.insertBefore(document.createElementNS(SVG, "g"), svg.querySelector(".boxes").nextSibling);
  for (const text of heads.querySelectorAll("text")) {
    text.dataset.x = text.getAttribute("x");
    text.setAttribute("x", 0);
    text.dataset.width = text.getComputedTextLength();
  }
  before = group(net.links.map(([a, b]) => [b, a]));
  after = group(net.links);
  makers = group(net.nodes.flatMap((n, i) => n.out.map((blob) => [blob, i])));
  takers = group(net.nodes.flatMap((n, i) => n.in.map((blob) => [blob, i])));
  chosen = null;
  hits = [];
  $("search").value = $("found").textContent = "";
  about();
  start();
}

// ---- where one looks ----

function apply() {
  scene.setAttribute("transform", `translate(${tx} ${ty}) scale(${k})`);
  heads.setAttribute("transform", `translate(0 ${-ty / k}) scale(1 ${1 / k})`);
  for (const text of heads.querySelectorAll("text")) {
    text.setAttribute("transform", `translate(${text.dataset.x} 0) scale(${1 / k} 1)`);
    text.style.visibility = text.dataset.room * k < text.dataset.width ? "hidden" : "";
  }
  svg.classList.toggle("far", k < 0.4);
  svg.classList.toggle("farther", k < 0.2);
  overview();
}
function zoom(factor, x = view.clientWidth / 2, y = view.clientHeight / 2) {
  const next = Math.min(4, Math.max(0.01, k * factor));
  tx = x - ((x - tx) * next) / k;
  ty = y - ((y - ty) * next) / k;
  k = next;
  apply();
}
function whole() {
  k = Math.min(1.2, view.clientWidth / size[0], (view.clientHeight - HEAD) / (size[1] - 64));
  tx = (view.clientWidth - size[0] * k) / 2;
  ty = HEAD - 64 * k;
  apply();
}
function start() {
  whole();
  if (k < 0.65) {
    k = Math.min(1, Math.max(0.65, view.clientWidth / size[0]));
    tx = Math.max(0, (view.clientWidth - size[0] * k) / 2);
    const top = Math.min(...Object.values(net.boxes).map(([x, y]) => (x * k < view.clientWidth ? y : Infinity)));
    ty = HEAD - top * k;
    apply();
  }
}
function reveal(node) {
  const [x, y, w, h] = net.boxes[node];
  if (k < 0.6) k = 0.8;
  const left = x * k + tx, top = y * k + ty;
  if (left < 40 || left + w * k > view.clientWidth - 40 || top < 60 || top + h * k > view.clientHeight - 40) {
    tx = view.clientWidth / 2 - (x + w / 2) * k;
    ty = view.clientHeight / 2 - (y + h / 2) * k;
  }
  apply();
}
let mapped = null;
function overview() {
  const scale = Math.min(150 / size[0], 200 / size[1]);
  map.style.width = `${(map.width = Math.max(24, size[0] * scale))}px`;
  map.style.height = `${(map.height = Math.max(24, size[1] * scale))}px`;
  const ink = map.getContext("2d"), colours = getComputedStyle(svg);
  for (const [id, [x, y, w, h, c]] of Object.entries(net.boxes)) {
    ink.fillStyle = hits.includes(Number(id)) ? colours.getPropertyValue("--mark") : palette(colours, c);
    ink.fillRect(x * scale, y * scale, Math.max(1, w * scale), Math.max(0.6, h * scale));
  }
  ink.strokeStyle = colours.getPropertyValue("--ink");
  ink.lineWidth = 1.5;
  ink.strokeRect((-tx / k) * scale, (-ty / k) * scale, (view.clientWidth / k) * scale, (view.clientHeight / k) * scale);
  mapped = scale;
}
const palette = (colours, c) => colours.getPropertyValue(`--c${c % 10}`);

// ---- what one looks at ----

function select(node, show = true) {
  for (const marked of svg.querySelectorAll(".on, .near")) marked.classList.remove("on", "near");
  links.replaceChildren();
  chosen = node;
  if (node === null) {
    mark();
    about();
    return;
  }
  const curve = (a, b, kind) => {
    const p = net.boxes[a], q = net.boxes[b], up = q[1] < p[1];
    const x = p[0] + p[2] / 2, y = p[1] + (up ? 0 : p[3]), X = q[0] + q[2] / 2, Y = q[1] + (up ? q[3] : 0), m = (y + Y) / 2;
    const path = document.createElementNS(SVG, "path");
    path.setAttribute("class", `link ${kind}`);
    path.setAttribute("d", `M${x} ${y}C${x} ${m} ${X} ${m} ${X} ${Y}`);
    links.append(path);
    svg.querySelector(`#n${kind === "takes" ? a : b}`).classList.add("near");
  };
  for (const a of before.get(node) ?? []) curve(a, node, "takes");
  for (const b of after.get(node) ?? []) curve(node, b, "gives");
  svg.querySelector(`#n${node}`).classList.add("on");
  mark();
  tell(node);
  if (show) reveal(node);
  history.replaceState(null, "", `#n${node}`);
}
function mark() {
  svg.classList.toggle("dim", hits.length > 0);
}
const short = (node) => {
  const n = net.nodes[node];
  return n.type ? `${node} ${n.type}` : "input";
};
const go = (node, text = short(node)) => make("button", { className: "go", onclick: () => select(node) }, text);
function list(title, items) {
  return items.length ? [make("h3", {}, title), make("ul", {}, ...items.map((item) => make("li", {}, ...[item].flat())))] : [];
}
function facts(pairs) {
  return make("dl", {}, ...pairs.flatMap(([key, value]) => [make("dt", {}, key), make("dd", {}, value)]));
}
function blob(name, others, word) {
  const known = net.shapes[name];
  const row = [make("span", { className: "blob" }, name)];
  if (known) row.push(make("span", { className: "dim" }, `  ${known}`));
  if (others.length) {
    row.push(make("br"), make("span", { className: "dim" }, `${word} `));
    others.slice(0, 12).forEach((other, i) => row.push(i ? ", " : "", go(other)));
    if (others.length > 12) row.push(` and ${others.length - 12} more`);
  }
  return row;
}
function tell(node) {
  const n = net.nodes[node];
  if (!n.type) {
    panel.replaceChildren(
      make("p", { className: "dim" }, "input of the net"),
      make("h2", {}, n.out[0]),
      ...list("blob", [blob(n.out[0], takers.get(n.out[0]) ?? [], "to")]),
    );
    return;
  }
  if (n.members) {
    const full = nets[index], kinds = [...group(n.members.map((m) => [full.nodes[m].type, m]))].sort((a, b) => b[1].length - a[1].length);
    panel.replaceChildren(
      make("p", { className: "dim" }, "scope"),
      make("h2", {}, n.type),
      facts([["device", n.device], ["operators", n.members.length.toLocaleString("en")]]),
      make("p", {}, make("button", { onclick: () => unfold(n.members[0]) }, "show its operators")),
      ...list("operators by type", kinds.map(([type, nodes]) => [
        make("button", { className: "go", onclick: () => unfold(nodes[0]) }, type), ` ${nodes.length}`])),
    );
    panel.scrollTop = 0;
    return;
  }
  const from = (name) => (makers.get(name) ?? []).filter((m) => (before.get(node) ?? []).includes(m));
  const to = (name) => (takers.get(name) ?? []).filter((t) => (after.get(node) ?? []).includes(t));
  const said = [["device", n.device]];
  for (const key of ["engine", "scope", "name", "debug"]) if (n[key]) said.push([key, n[key]]);
  panel.replaceChildren(
    make("p", { className: "dim" }, `operator ${node} of ${net.operators}`),
    make("h2", {}, n.type),
    facts(said),
    ...list("nets within", (n.nets ?? []).map(([name, at]) => [
      make("button", { className: "go", onclick: () => load(at) }, name), ` ${nets[at].name}: ${nets[at].operators} operators`])),
    ...list(`inputs (${n.in.length})`, n.in.map((name) => blob(name, from(name), "from"))),
    ...list(`outputs (${n.out.length})`, n.out.map((name) => blob(name, to(name), "to"))),
    ...(n.after ? list("waits for", n.after.map((name) => blob(name, from(name), "from"))) : []),
    ...n.in.filter((name) => net.values[name]).flatMap((name) => [make("h3", {}, `values of ${name}`), ...holds(net.values[name])]),
    ...(n.args ? [make("h3", {}, "arguments"), facts(Object.entries(n.args))] : []),
  );
  panel.scrollTop = 0;
}
function holds(v) {
  const number = (x) => (Number.isInteger(x) ? String(x) : x.toPrecision(4));
  const said = [["first", v.first.join(", ")]];
  if (v.least !== null) said.unshift(["least", number(v.least)], ["mean", number(v.mean)], ["most", number(v.most)]);
  if (v.odd) said.push(["NaN or infinite", v.odd.toLocaleString("en")]);
  if (!v.bins.length) return [facts(said)];
  const chart = document.createElementNS(SVG, "svg"), top = Math.max(...v.bins), wide = 280 / v.bins.length;
  chart.setAttribute("viewBox", "0 0 280 60");
  chart.setAttribute("class", "histogram");
  chart.setAttribute("role", "img");
  chart.setAttribute("aria-label", `histogram from ${number(v.least)} to ${number(v.most)}`);
  v.bins.forEach((n, i) => {
    const bar = document.createElementNS(SVG, "rect"), h = n ? Math.max(1, (n / top) * 58) : 0;
    for (const [key, value] of Object.entries({ x: i * wide, y: 60 - h, width: wide - 1, height: h })) bar.setAttribute(key, value);
    chart.append(bar);
  });
  return [chart, facts(said)];
}
function unfold(node) {
  load(index);
  select(node);
}
function back() {
  if (!net.parent) return;
  const [outer, operator] = net.parent;
  load(outer);
  select(operator);
}
function save(name, href) {
  make("a", { download: name, href }).click();
}
function picture() {
  const copy = sheet.cloneNode(true);
  copy.setAttribute("xmlns", SVG);
  const look = document.createElementNS(SVG, "style");
  look.textContent = $("style").textContent;
  copy.insertBefore(look, copy.firstChild);
  return new XMLSerializer().serializeToString(copy);
}
const asUrl = (text) => `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
const named = (end) => `${(net.name || "net").replace(/[^\w.-]+/g, "_")}.${end}`;
function savePng() {
  const image = new Image();
  image.onload = () => {
    const finest = Math.min(2, 16000 / size[0], 16000 / size[1], Math.sqrt(1.2e8 / (size[0] * size[1])));
    const paper = make("canvas", { width: size[0] * finest, height: size[1] * finest });
    paper.getContext("2d").drawImage(image, 0, 0, paper.width, paper.height);
    save(named("png"), paper.toDataURL("image/png"));
  };
  image.src = asUrl(picture());
}
function about() {
  const types = [...group(net.nodes.slice(0, net.operators).map((n, i) => [n.type, i]))].sort((a, b) => b[1].length - a[1].length);
  const devices = [...group(net.nodes.slice(0, net.operators).map((n, i) => [n.device, i]))];
  const key = (kind, text) => make("p", {}, make("span", { className: `key ${kind}` }), text);
  const colours = getComputedStyle(svg);
  panel.replaceChildren(
    make("h2", {}, net.name || "(no name)"),
    facts([["type", net.kind], ["operators", net.operators.toLocaleString("en")]]),
    ...(net.remark ? [make("p", {}, net.remark)] : []),
    ...(steps.length ? [make("h3", {}, "plan"), make("pre", {}, steps.join("\n"))] : []),
    ...list("nets within", net.nodes.flatMap((n, i) => (n.nets ?? []).map(([name, at]) => [
      make("button", { className: "go", onclick: () => load(at) }, `${name} of ${n.type}`), ` operator ${i}`]))),
    make("h3", {}, "devices"),
    ...devices.map(([name, nodes]) => {
      const colour = make("span", { className: "key colour" });
      colour.style.background = palette(colours, net.boxes[nodes[0]]?.[4] ?? 0);
      return make("p", {}, colour, `${name}: ${nodes.length}`);
    }),
    make("h3", {}, "signs"),
    key("gradient", "gradient"), key("collective", "⇄ collective: devices or processes take part together"),
    key("input", "input of the net"),
    make("p", { className: "dim" }, "A dotted end is a line over many rows: choose the operator to see where it leads."),
    make("h3", {}, "keys"),
    facts([["arrows", "↑ to what it takes, ↓ to who takes it, ← → before and after"], ["/", "search; Enter goes on"],
      ["f", "fold the scopes, or unfold them"], ["⌫", "back to the net around this one"], ["+ − 0", "zoom in, out, all"], ["Esc", "choose nothing"], ["mouse", "drag and wheel move, Ctrl and wheel zooms"]]),
    ...list("operators by type", types.map(([type, nodes]) => [
      make("button", { className: "go", onclick: () => { $("search").value = type; search(); next(1); } }, type), ` ${nodes.length}`])),
  );
}
function search() {
  const word = $("search").value.trim().toLowerCase();
  for (const marked of svg.querySelectorAll(".hit")) marked.classList.remove("hit");
  hits = [];
  hit = -1;
  if (word) {
    net.nodes.forEach((n, i) => {
      const text = [n.type, n.name, n.engine, n.scope, ...n.in, ...n.out, ...Object.entries(n.args ?? {}).flat()];
      if (text.some((t) => t && t.toLowerCase().includes(word))) hits.push(i);
    });
    for (const i of hits) svg.querySelector(`#n${i}`).classList.add("hit");
  }
  $("found").textContent = word ? `${hits.length} found` : "";
  mark();
  overview();
}
function next(step) {
  if (!hits.length) return;
  hit = (hit + step + hits.length) % hits.length;
  select(hits[hit]);
  $("found").textContent = `${hit + 1} of ${hits.length}`;
}

// ---- hands ----

let drag = null;
const fingers = new Map();
const spread = () => {
  const [a, b] = [...fingers.values()], at = view.getBoundingClientRect();
  return { apart: Math.hypot(a.x - b.x, a.y - b.y), x: (a.x + b.x) / 2 - at.left, y: (a.y + b.y) / 2 - at.top };
};
view.addEventListener("pointerdown", (e) => {
  fingers.set(e.pointerId, { x: e.clientX, y: e.clientY });
  drag = { x: e.clientX, y: e.clientY, moved: false, node: e.target.closest(".box") };
  view.setPointerCapture(e.pointerId);
});
view.addEventListener("pointermove", (e) => {
  if (!drag) return;
  if (fingers.size === 2 && fingers.has(e.pointerId)) {
    const was = spread();
    fingers.set(e.pointerId, { x: e.clientX, y: e.clientY });
    const now = spread();
    drag.moved = true;
    tx += now.x - was.x;
    ty += now.y - was.y;
    zoom(now.apart / Math.max(1, was.apart), now.x, now.y);
    Object.assign(drag, { x: e.clientX, y: e.clientY });
    return;
  }
  fingers.set(e.pointerId, { x: e.clientX, y: e.clientY });
  const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
  if (!drag.moved && Math.hypot(dx, dy) < 4) return;
  Object.assign(drag, { x: e.clientX, y: e.clientY, moved: true });
  view.classList.add("drag");
  tx += dx;
  ty += dy;
  apply();
});
view.addEventListener("pointercancel", (e) => fingers.delete(e.pointerId));
view.addEventListener("pointerup", (e) => {
  fingers.delete(e.pointerId);
  if (fingers.size) return;
  if (drag && !drag.moved) select(drag.node ? Number(drag.node.id.slice(1)) : null, false);
  drag = null;
  view.classList.remove("drag");
});
view.addEventListener("wheel", (e) => {
  e.preventDefault();
  const unit = e.deltaMode ? 16 : 1;
  if (e.ctrlKey || e.metaKey) {
    const at = view.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY * unit * 0.004), e.clientX - at.left, e.clientY - at.top);
  } else {
    tx -= (e.shiftKey ? e.deltaY : e.deltaX) * unit;
    ty -= (e.shiftKey ? 0 : e.deltaY) * unit;
    apply();
  }
}, { passive: false });
map.addEventListener("pointerdown", (e) => {
  tx = view.clientWidth / 2 - (e.offsetX / mapped) * k;
  ty = view.clientHeight / 2 - (e.offsetY / mapped) * k;
  apply();
});
view.addEventListener("keydown", (e) => {
  const last = net.operators - 1;
  const steps = {
    ArrowUp: () => (before.get(chosen) ?? [])[0],
    ArrowDown: () => (after.get(chosen) ?? [])[0],
    ArrowLeft: () => Math.max(0, chosen - 1),
    ArrowRight: () => Math.min(last, chosen + 1),
    Home: () => 0,
    End: () => last,
  };
  if (e.key in steps && net.operators) {
    e.preventDefault();
    const node = chosen === null ? 0 : steps[e.key]();
    if (node !== undefined) select(node);
  }
});
document.addEventListener("keydown", (e) => {
  const typing = e.target.matches("input, select");
  if (e.key === "Escape") {
    $("search").value = "";
    search();
    select(null);
    view.focus();
  } else if (e.key === "Enter" && e.target === $("search")) next(e.shiftKey ? -1 : 1);
  else if (!typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
    const keys = { Backspace: back, f: () => nets[index].fold && load(index, !folds), "/": () => $("search").focus(), "+": () => zoom(1.3), "=": () => zoom(1.3), "-": () => zoom(1 / 1.3), 0: whole };
    if (e.key in keys) {
      e.preventDefault();
      keys[e.key]();
    }
  }
});
$("in").onclick = () => zoom(1.3);
$("out").onclick = () => zoom(1 / 1.3);
$("all").onclick = whole;
$("search").oninput = search;
$("net").onchange = () => load($("net").value);
$("back").onclick = back;
$("fold").onclick = () => load(index, !folds);
$("svg").onclick = () => save(named("svg"), asUrl(picture()));
$("png").onclick = savePng;
$("theme").onclick = () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  overview();
  if (chosen === null) about();
};
addEventListener("resize", () => (location.hash === "#whole" && chosen === null ? whole() : apply()));
load(0);
const asked = /^#n(\d+)$/.exec(location.hash);
if (asked && net.boxes[asked[1]]) select(Number(asked[1]));
if (location.hash === "#whole") whole();

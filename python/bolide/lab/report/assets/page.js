// Filters rows, bars and lines by contestant, sorts tables, and shows the table of one level at a time.
// Without this script, everything is shown.
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const search = document.getElementById("search");
  const shown = document.getElementById("shown");
  const toggles = all(".legend button");
  const kinds = all(".kinds button");
  const known = new Map(toggles.map((b) => [b.dataset.name, b.dataset]));

  function isShown(name) {
    const about = known.get(name);
    if (!about) return true;
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const kind = kinds.find((b) => b.getAttribute("aria-pressed") === "true").dataset.kind;
    const hit = !words.length || words.some((word) => about.text.includes(word));
    return hit && (!kind || about.kind === kind || about.kind === "ceiling") && about.off !== "1";
  }

  // Moves the visible rows of a chart together, and adapts its height.
  function restack(chart) {
    const pitch = +chart.dataset.pitch, top = +chart.dataset.top;
    const rows = all("g.row", chart).filter((row) => !row.hasAttribute("hidden"));
    rows.forEach((row, n) => row.setAttribute("transform", `translate(0,${top + n * pitch})`));
    const width = chart.viewBox.baseVal.width;
    chart.setAttribute("viewBox", `0 0 ${width} ${top + rows.length * pitch + 6}`);
  }

  function apply() {
    const visible = new Set([...known.keys()].filter(isShown));
    for (const each of all("[data-c]")) {
      each.toggleAttribute("hidden", known.has(each.dataset.c) && !visible.has(each.dataset.c));
    }
    all("svg[data-pitch]").forEach(restack);
    shown.textContent = `${visible.size} of ${known.size}`;
  }

  search.addEventListener("input", apply);
  for (const button of kinds) {
    button.addEventListener("click", () => {
      kinds.forEach((each) => each.setAttribute("aria-pressed", String(each === button)));
      apply();
    });
  }
  for (const button of toggles) {
    button.addEventListener("click", () => {
      button.dataset.off = button.dataset.off === "1" ? "0" : "1";
      button.setAttribute("aria-pressed", String(button.dataset.off !== "1"));
      apply();
    });
  }

  function sort(head) {
    const column = [...head.parentNode.children].indexOf(head);
    const isFirst = column === 0;
    const down = head.getAttribute("aria-sort") === "none" ? !isFirst : head.getAttribute("aria-sort") !== "descending";
    all("th[aria-sort]", head.parentNode).forEach((each) => each.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const body = head.closest("table").tBodies[0];
    const value = (row) => {
      const cell = row.cells[column];
      if (isFirst) return cell.textContent;
      if (cell.dataset.v !== undefined) return +cell.dataset.v;
      const plain = cell.firstChild && cell.firstChild.textContent.trim().replaceAll(",", "");
      return plain && /^\d+$/.test(plain) ? +plain : null;
    };
    const order = [...body.rows].sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      const by = isFirst ? x.localeCompare(y) : x - y;
      return down ? -by : by;
    });
    body.append(...order);
  }
  const hints = new Map(all("#hints dt").map((each) => [each.textContent, each.nextElementSibling.textContent]));
  for (const head of all("th[aria-sort]")) {
    head.tabIndex = 0;
    if (hints.has(head.textContent)) head.title = hints.get(head.textContent);
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(head); }
    });
  }

  for (const choice of all("select[data-levels]")) {
    const tables = all(`[data-level-of="${choice.dataset.levels}"]`);
    const show = () => tables.forEach((each) => { each.hidden = each.dataset.level !== choice.value; });
    choice.closest("p").hidden = false;
    choice.addEventListener("change", show);
    show();
  }

  for (const series of all("g.series")) {
    const chart = series.closest("svg");
    series.addEventListener("pointerenter", () => { chart.classList.add("dim"); series.classList.add("hot"); });
    series.addEventListener("pointerleave", () => { chart.classList.remove("dim"); series.classList.remove("hot"); });
  }
  apply();
})();

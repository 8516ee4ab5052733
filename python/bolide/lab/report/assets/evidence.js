// Shows the trials of a figure that is clicked: each round with its tool, its verdict and what was used.
// The trials are in the page: the link that offers them as a file contains them.
(() => {
  const panel = document.getElementById("evidence");
  const link = document.getElementById("trials");
  if (!panel || !panel.showModal || !window.DecompressionStream) return;
  document.documentElement.classList.add("has-evidence");
  const NONE = "–";
  let records = null;

  async function load() {
    if (records) return records;
    const packed = Uint8Array.from(atob(link.href.split(",")[1]), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    const lines = (await new Response(stream).text()).split("\n").filter(Boolean);
    records = lines.map((line) => JSON.parse(line));
    return records;
  }

  const count = (value) => value == null ? NONE : Math.round(value).toLocaleString("en");
  const share = (value) => value == null ? NONE : `${Math.round(value * 100)} %`;
  const time = (value) => value == null ? NONE
    : value >= 1e6 ? `${+(value / 1e6).toPrecision(3)} s` : value >= 1e3 ? `${+(value / 1e3).toPrecision(3)} ms` : `${+value.toPrecision(3)} µs`;
  const size = (value) => value == null ? NONE : `${+(value / 2 ** 20).toPrecision(3)} MiB`;

  const argument = (text) => text.length <= 80 ? text : `${text.slice(0, 24)}… (${count(text.length)} characters)`;

  function make(name, text, kind) {
    const found = document.createElement(name);
    if (text !== undefined) found.textContent = text;
    if (kind) found.className = kind;
    return found;
  }
  function table(head, rows) {
    const found = make("table"), scroll = make("div", undefined, "scroll");
    const add = (parent, name, cells) => {
      const row = parent.insertRow();
      cells.forEach((text, n) => row.append(make(name, text, n && n < head.length - 1 ? "num" : "")));
    };
    add(found.createTHead(), "th", head);
    const body = found.createTBody();
    rows.forEach((cells) => add(body, "td", cells));
    scroll.append(found);
    return scroll;
  }
  function facts(pairs) {
    const list = make("dl", undefined, "pairs");
    for (const [name, value] of pairs) if (value) list.append(make("dt", name), make("dd", value));
    return list;
  }

  const rate = (trial) => trial.failure || !trial.is_valid ? NONE : count(trial.requests_per_s);
  const reason = (trial) => trial.failure ? `${trial.failure.class}: ${trial.failure.message}` : trial.verdict;
  function row(trial, ceiling) {
    const of = ceiling && ceiling.is_valid && trial.is_valid ? trial.requests_per_s / ceiling.requests_per_s : null;
    const late = trial.is_valid && trial.latency_us || {};
    return [
      String(trial.round), rate(trial), share(of), time(late.p50), time(late.p99), time(late.max), count(trial.ok), count(trial.failed),
      share(trial.server.cpu_share), share(trial.generator.processors ?? trial.generator.cpu_share),
      size(trial.server.pss_bytes_max ?? trial.server.rss_bytes_max), share(trial.kernel.steal_share), reason(trial),
    ];
  }
  const HEAD = ["round", "requests/s", "of ceiling", "p50", "p99", "max", "correct", "failed", "server CPU", "generator CPU", "memory",
    "taken by other guests", "verdict"];

  function load_of(workload) {
    if (!workload) return "";
    const said = [workload.tool === "bolide" ? "bolide load" : workload.tool, `${workload.connections.toLocaleString("en")} connections`];
    if (workload.pipeline_depth > 1) said.push(`${workload.pipeline_depth} deep`);
    if (!workload.is_persistent) said.push("a connection per request");
    if (workload.threads > 1) said.push(`${workload.threads} threads`);
    if (workload.duration_s) said.push(`${workload.duration_s} s`);
    if (workload.requests_total) said.push(`${workload.requests_total.toLocaleString("en")} requests`);
    return said.join(", ");
  }

  function content(every, study, workload, name) {
    const of = (kind) => every.filter((each) => each.kind === kind);
    const [machine] = of("machine").slice(-1);
    const contestants = of("contestant"), contestant = contestants.filter((each) => each.name === name).pop() || {};
    const plan = of("study").filter((each) => each.name === study).pop();
    const rounds = (who) => {
      const trials = of("trial").filter((each) => each.study === study && each.workload === workload && each.contestant === who);
      return new Map(trials.map((each) => [each.round, each]));
    };
    const ceiling = contestants.find((each) => each.role === "ceiling");
    const base = ceiling && ceiling.name !== name ? rounds(ceiling.name) : new Map();
    const own = [...rounds(name).values()].sort((a, b) => a.round - b.round);
    const found = [make("h2", contestant.title || name)];
    found.push(make("p", `${workload}: ${load_of(plan && plan.workloads.find((each) => each.name === workload))}`, "quiet"));
    if (!own.length) return [...found, make("p", "It was not run with this load.")];
    found.push(table(HEAD, own.map((each) => row(each, base.get(each.round)))));
    const said = make("ul");
    for (const trial of own) {
      const errors = Object.entries(trial.errors || {}).map(([kind, number]) => `${kind} ${count(number)}`);
      const text = [...(trial.evidence || []), ...(errors.length ? [`failed: ${errors.join(", ")}`] : [])].join("; ");
      if (text) said.append(make("li", `Round ${trial.round}: ${text}.`));
    }
    if (said.children.length) found.push(make("h3", "Evidence"), said);
    const [first] = own;
    found.push(make("h3", "Environment"), facts([
      ["Server", [contestant.settings, contestant.version && `version ${contestant.version}`].filter(Boolean).join(" · ")],
      ["Generator", `${(first.command || []).map(argument).join(" ")} · version ${first.tool_version || "unknown"}`],
      ["Run", own.map((each) => each.started_at.slice(0, 19).replace("T", " ")).join(", ") + " UTC"],
      ["Machine", machine && [machine.cpu_model, machine.kernel, machine.python, `server on ${machine.server_cpus ?? "?"}`,
        `load on ${machine.load_cpus ?? "?"}`].filter(Boolean).join(" · ")],
    ]));
    return found;
  }

  // The address names the figure, so that a link leads to its evidence.
  async function open(address) {
    const [study, workload, name] = address.split("/").map(decodeURIComponent);
    const body = panel.querySelector("div");
    body.replaceChildren(...content(await load(), study, workload, name));
    if (!panel.open) panel.showModal();
    panel.scrollTop = 0;
  }
  const PREFIX = "#of=";
  const follow = () => {
    if (location.hash.startsWith(PREFIX)) open(location.hash.slice(PREFIX.length));
    else if (panel.open) panel.close();
  };
  // The event `close` would come later, perhaps after the next figure has been opened.
  const forget = () => { if (location.hash.startsWith(PREFIX)) history.replaceState(null, "", "#"); };
  panel.addEventListener("cancel", forget);
  panel.addEventListener("click", (event) => {
    if (event.target === panel || event.target.closest("button")) { panel.close(); forget(); }
  });

  function address(target) {
    const section = target.closest("[data-study]");
    if (!section) return null;
    const cell = target.closest("td"), mark = target.closest("g.row, [data-w][data-c]");
    let workload, name;
    if (cell && cell.cellIndex >= 0) {
      const table = cell.closest("table"), head = table.tHead && table.tHead.rows[0].cells[cell.cellIndex];
      workload = head && head.dataset.w || table.dataset.w;
      name = cell.dataset.k || cell.parentNode.dataset.c;
    } else if (mark) {
      const drawn = mark.closest("[data-w]");
      [workload, name] = [drawn && drawn.dataset.w, mark.dataset.c];
    }
    return workload && name ? [section.dataset.study, workload, name].map(encodeURIComponent).join("/") : null;
  }
  function show(event) {
    const found = address(event.target);
    if (!found) return;
    event.preventDefault();
    history.replaceState(null, "", PREFIX + found);
    open(found);
  }
  document.querySelector("main").addEventListener("click", show);
  for (const first of document.querySelectorAll("main tr[data-c] > td:first-child")) {
    if (address(first)) { first.tabIndex = 0; first.setAttribute("role", "button"); }
  }
  document.querySelector("main").addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.matches("td[tabindex], [data-w][data-c]")) show(event);
  });
  addEventListener("hashchange", follow);
  follow();
})();

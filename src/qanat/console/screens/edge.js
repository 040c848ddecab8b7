/** The tree of brokers and consumer applications: who gets what from whom, and who was seen when. */

import { get, path, put, query, remove } from "../api.js";
import { Badge, Confirm, Dialog, Doing, Facts, Field, Header, Panel, Screen, Table, html, say } from "../widgets.js";
import { count, seconds } from "../formats.js";

const PAGE = 1000;
const SHOWN_MAX = 10_000;
const SEEN_MS = 60_000;
const ROLES = ["ROOT", "L2", "L3", "POS", "LOCAL"];

export default class Edge extends Screen {
  async load(signal) {
    const nodes = [];
    let token = "";
    do {
      const page = await get(`/edge/nodes${query({ limit: PAGE, page_token: token })}`, signal);
      nodes.push(...page.nodes);
      token = page.next_page_token;
    } while (token && nodes.length < SHOWN_MAX);
    return treeOf(nodes);
  }

  render() {
    return html`<${Header} title="Edge tree" note="Brokers and consumer applications below this cluster, and what their pipes carry"><button data-new onClick=${() => this.setState({ dialog: { placing: {} } })}>Place a node</button><//>${super.render()}`;
  }

  show(rows) {
    const { dialog } = this.state;
    const close = () => this.setState({ dialog: null });
    const done = (text) => { say(text); close(); this.again(); };
    const columns = [
      { label: "Node", cell: (row) => html`<span style=${{ paddingLeft: `${22 * Math.min(row.depth, 12)}px` }}>${row.depth > 0 && html`<span class="quiet" aria-hidden="true">└ </span>`}${row.node}</span>` },
      { label: "Role", cell: (row) => row.role ?? html`<${Badge} text="no place yet" tone="warn" />` },
      { label: "Parents", cell: (row) => row.parents.join(", ") || "–" },
      { label: "Topics", cell: (row) => html`<span class="clip">${row.topics.join(", ")}</span>`, isMono: true },
      { label: "Seen", cell: (row) => html`<${Seen} row=${row} />` },
      { label: "Address", cell: (row) => row.url ?? "–", isMono: true },
      { label: "", cell: (row) => html`<button class="small" onClick=${() => this.setState({ dialog: { placing: row } })} aria-label="Place ${row.node}">Place</button> <button class="small danger" onClick=${() => this.setState({ dialog: { retiring: row } })} aria-label="Retire ${row.node}">Retire</button>` },
    ];
    return html`
      <${Facts} facts=${[
        { label: "Nodes", value: count(rows.length) },
        { label: "Without a place", value: count(rows.filter((one) => !one.role).length), tone: rows.some((one) => !one.role) ? "warn" : "" },
        { label: "Seen in the last minute", value: count(rows.filter((one) => one.seen_ms_ago !== null && one.seen_ms_ago < SEEN_MS).length), note: "by this broker" },
      ]} />
      <${Panel} title="Nodes"><${Table} label="Nodes" columns=${columns} rows=${rows} empty="This cluster has no nodes below it." keyOf=${(row) => row.node} /><//>
      ${dialog?.placing && html`<${Place} row=${dialog.placing} onClose=${close} done=${done} />`}
      ${dialog?.retiring && html`<${Confirm} title="Retire node" label="Retire ${dialog.retiring.node}" text="The node loses its place, and its pipe ends. A node with children is refused." onClose=${close}
        act=${async () => { await remove(path`/edge/nodes/${dialog.retiring.node}`); done(`${dialog.retiring.node} was retired.`); }} />`}
    `;
  }
}

/** When this broker heard of a node: others may have heard of it since. */
function Seen({ row }) {
  if (!row.instance) return html`<${Badge} text="not registered" tone="warn" />`;
  if (row.seen_ms_ago === null) return html`<${Badge} text="not by this broker" />`;
  return html`<${Badge} text="${seconds(row.seen_ms_ago / 1000)} ago" tone=${row.seen_ms_ago < SEEN_MS ? "good" : ""} />`;
}

/** Nodes in the order of the tree, each below its first parent; what is in a circle comes last. */
function treeOf(nodes) {
  const known = new Set(nodes.map((one) => one.node));
  const children = new Map();
  for (const one of nodes) {
    const parent = one.parents.find((name) => known.has(name)) ?? "";
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(one);
  }
  const rows = [];
  const seen = new Set();
  const walk = (name, depth) => {
    for (const one of children.get(name) ?? []) {
      if (seen.has(one.node)) continue;
      seen.add(one.node);
      rows.push({ ...one, depth });
      walk(one.node, depth + 1);
    }
  };
  walk("", 0);
  return [...rows, ...nodes.filter((one) => !seen.has(one.node)).map((one) => ({ ...one, depth: 0 }))];
}

function Place({ row, onClose, done }) {
  const list = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);
  const act = async (given) => {
    const name = row.node ?? given.node;
    const body = { role: given.role, parents: list(given.parents), topics: list(given.topics) };
    if (given.url) body.url = given.url;
    await put(path`/edge/nodes/${name}`, body);
    done(`${name} has its place.`);
  };
  return html`<${Dialog} title=${row.node ? `Place of ${row.node}` : "Place a node"} onClose=${onClose}>
    <${Doing} label="Save" act=${act}>
      ${!row.node && html`<${Field} label="Name"><input name="node" required autofocus spellcheck=${false} autocomplete="off" /><//>`}
      <${Field} label="Role"><select name="role" defaultValue=${row.role ?? ROLES[0]}>${ROLES.map((one) => html`<option selected=${one === (row.role ?? ROLES[0])}>${one}</option>`)}</select><//>
      <${Field} label="Parents" hint="With commas, in the order in which they are tried"><input name="parents" defaultValue=${(row.parents ?? []).join(", ")} spellcheck=${false} /><//>
      <${Field} label="Topics" hint="What its pipe carries; * at the end is any rest"><input name="topics" required defaultValue=${(row.topics ?? ["*"]).join(", ")} spellcheck=${false} /><//>
      <${Field} label="Address" hint="Where children reach it; empty: what it said itself"><input name="url" defaultValue=${row.url ?? ""} spellcheck=${false} /><//>
    <//>
  <//>`;
}

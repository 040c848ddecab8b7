/** Clients that push metrics (KIP-714): who they are, what each says of itself, and who is asked to push what. */

import { get, patch, path, query } from "../api.js";
import { Badge, Component, Confirm, Dialog, Doing, Facts, Field, Header, LongTable, Panel, Screen, Search, Table, html, say } from "../widgets.js";
import { count, seconds } from "../formats.js";

export default function Clients({ name, query: given }) {
  return name ? html`<${Client} name=${name} />` : html`<${List} query=${given} />`;
}

const COLUMNS = [
  { label: "Client", cell: (row) => html`<a href="#/clients/${encodeURIComponent(row.client_instance_id)}">${row.client_id || "without a name"}</a>` },
  { label: "Software", cell: (row) => html`<span title=${row.software_version}>${row.software_name} ${row.software_version.split("-")[0]}</span>` },
  { label: "Address", cell: (row) => row.address, isMono: true },
  { label: "User", cell: (row) => row.principal },
  { label: "Broker", isNumber: true, cell: (row) => row.node_id },
  { label: "Numbers", isNumber: true, cell: (row) => count(row.series) },
  { label: "Pushed", isNumber: true, cell: (row) => (row.last_push_ms_ago === null ? "not yet" : `${seconds(row.last_push_ms_ago / 1000)} ago`) },
  { label: "State", cell: (row) => html`<${State} row=${row} />` },
];

function State({ row }) {
  if (row.has_ended) return html`<${Badge} text="ended" />`;
  if (row.last_error) return html`<${Badge} text=${row.last_error} tone="bad" />`;
  if (!row.metrics.length) return html`<${Badge} text="asked for nothing" />`;
  return html`<${Badge} text="pushes" tone="good" />`;
}

class List extends Component {
  state = { search: this.props.query.search ?? "", total: null };

  change = (search) => this.setState({ search }, () => history.replaceState(null, "", `#/clients${query({ search })}`));

  fetchPage = async (offset, limit, signal) => {
    const found = await get(`/clients${query({ search: this.state.search, offset, limit })}`, signal);
    return { rows: found.clients, total: found.total };
  };

  render(_, { search, total }) {
    return html`
      <${Header} title="Clients" note="What clients say of themselves: those that push metrics (KIP-714)" />
      <${Subscriptions} />
      <div class="bar"><${Search} label="Search clients" value=${search} onInput=${this.change} /><span class="quiet">${total === null ? "" : `${count(total)} ${search ? "found" : "in all"}`}</span></div>
      <${LongTable} label="Clients" columns=${COLUMNS} keyOf=${(row) => row.client_instance_id} viewKey=${search} fetchPage=${this.fetchPage}
        onTotal=${(value) => value !== this.state.total && this.setState({ total: value })} empty="No client has asked yet what to push: clients of Kafka 3.7 and newer do, with enable.metrics.push." />
    `;
  }
}

/** Who is asked for what. */
class Subscriptions extends Screen {
  every = 0;

  async load(signal) {
    const { names } = await get("/configs/client-metrics", signal);
    const found = await Promise.all(names.slice(0, 50).map((name) => get(path`/configs/client-metrics/${name}`, signal)));
    return found.map(({ name, configs }) => ({ name, ...Object.fromEntries(configs.map((one) => [one.name, one.value])) }));
  }

  show(rows) {
    const { editing, removing } = this.state;
    const columns = [
      { label: "Subscription", cell: (row) => row.name },
      { label: "Clients", cell: (row) => row.match || "all", isMono: true },
      { label: "Metrics", cell: (row) => html`<span class="clip">${row.metrics || "none"}</span>`, isMono: true },
      { label: "Every", isNumber: true, cell: (row) => seconds(row["interval.ms"] / 1000) },
      { label: "", cell: (row) => html`<button class="small" onClick=${() => this.setState({ editing: row })} aria-label="Change ${row.name}">Change</button> <button class="small danger" onClick=${() => this.setState({ removing: row })} aria-label="Remove ${row.name}">Remove</button>` },
    ];
    const done = (text) => { say(text); this.setState({ editing: null, removing: null }); this.again(); };
    return html`<${Panel} title="Subscriptions" actions=${html`<button data-new onClick=${() => this.setState({ editing: {} })}>New subscription</button>`}>
      <${Table} label="Subscriptions" columns=${columns} rows=${rows} empty="No client is asked for metrics." keyOf=${(row) => row.name} />
      ${editing && html`<${Change} row=${editing} onClose=${() => this.setState({ editing: null })} done=${done} />`}
      ${removing && html`<${Confirm} title="Remove subscription" label="Remove ${removing.name}" text="Its clients stop pushing with their next push." onClose=${() => this.setState({ removing: null })}
        act=${async () => { await patch(path`/configs/client-metrics/${removing.name}`, { configs: { match: null, metrics: null, "interval.ms": null } }); done(`${removing.name} was removed.`); }} />`}
    <//>`;
  }
}

function Change({ row, onClose, done }) {
  const act = async (given) => {
    const name = row.name ?? given.name;
    await patch(path`/configs/client-metrics/${name}`, { configs: { match: given.match || null, metrics: given.metrics, "interval.ms": Math.round(Number(given.interval) * 1000) } });
    done(`${name} was saved.`);
  };
  return html`<${Dialog} title=${row.name ? `Subscription ${row.name}` : "New subscription"} onClose=${onClose}>
    <${Doing} label="Save" act=${act}>
      ${!row.name && html`<${Field} label="Name"><input name="name" required autofocus spellcheck=${false} autocomplete="off" /><//>`}
      <${Field} label="Metrics" hint="Beginnings of names, with commas; * is all"><input name="metrics" required defaultValue=${row.metrics ?? "*"} spellcheck=${false} /><//>
      <${Field} label="Clients" hint="client_id=billing-.*, client_software_name=…; empty: all"><input name="match" defaultValue=${row.match ?? ""} spellcheck=${false} /><//>
      <${Field} label="Every … seconds"><input name="interval" type="number" min="0.1" max="3600" step="0.1" required defaultValue=${(row["interval.ms"] ?? 30000) / 1000} /><//>
    <//>
  <//>`;
}

class Client extends Screen {
  load(signal) {
    return get(path`/clients/${this.props.name}`, signal);
  }

  render() {
    return html`<${Header} title=${this.state.data?.client.client_id || this.props.name} back=${{ href: "#/clients", label: "← Clients" }} note=${this.props.name} />${super.render()}`;
  }

  show({ client, series }) {
    const { search = "" } = this.state;
    const rows = series.filter((one) => one.name.includes(search));
    const columns = [
      { label: "Metric", cell: (row) => html`<span class="clip">${row.name}</span>`, isMono: true },
      { label: "Labels", cell: (row) => html`<span class="clip">${Object.entries(row.labels).map(([name, value]) => `${name}=${value}`).join(", ")}</span>`, isMono: true },
      { label: "Value", isNumber: true, cell: (row) => (row.value === null ? "not a number" : Number.isInteger(row.value) ? count(row.value) : row.value.toPrecision(6)) },
      { label: "Unit", cell: (row) => row.unit },
      { label: "Kind", cell: (row) => row.kind },
    ];
    return html`
      <${Facts} facts=${[
        { label: "Software", value: client.software_name, note: client.software_version },
        { label: "Address", value: client.address, note: client.principal },
        { label: "Pushes", value: count(client.pushes), note: `every ${seconds(client.interval_ms / 1000)}, to broker ${client.node_id}` },
        { label: "Refused", value: count(client.refused), note: client.last_error, tone: client.last_error ? "bad" : "" },
        { label: "Asked for", value: client.metrics.length ? client.metrics.slice(0, 3).join(", ") : "nothing" },
      ]} />
      ${client.dropped > 0 && html`<p class="note">${count(client.dropped)} numbers of its newest push found no room.</p>`}
      <${Panel} title="Numbers" actions=${html`<${Search} label="Search metrics" value=${search} onInput=${(value) => this.setState({ search: value })} />`}>
        <${Table} label="Numbers" columns=${columns} rows=${rows} empty="It has pushed nothing yet." />
      <//>
    `;
  }
}

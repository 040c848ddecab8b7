/** One topic: partitions and rates, records, settings, dead letters. */

import { get, patch, path, remove } from "../api.js";
import { Badge, Chart, Component, Confirm, Dialog, Doing, Facts, Field, Header, Panel, Screen, Table, Tabs, html, say } from "../widgets.js";
import { byteRate, bytes, count, rate, short } from "../formats.js";
import Records from "./records.js";
import Letters from "./letters.js";

export default class Topic extends Component {
  render({ name, tab, query }) {
    const address = `#/topics/${encodeURIComponent(name)}`;
    const tabs = [
      { id: "", label: "Partitions", href: address },
      { id: "records", label: "Records", href: `${address}/records` },
      { id: "settings", label: "Settings", href: `${address}/settings` },
      { id: "dead-letters", label: "As dead letters", href: `${address}/dead-letters` },
    ];
    return html`
      <${Header} title=${name} back=${{ href: "#/topics", label: "← Topics" }} />
      <${Tabs} tabs=${tabs} current=${tab} />
      ${tab === "records" ? html`<${Records} name=${name} query=${query} />` : tab === "settings" ? html`<${Settings} name=${name} />` : tab === "dead-letters" ? html`<${Letters} name=${name} />` : html`<${Partitions} name=${name} />`}
    `;
  }
}

class Partitions extends Screen {
  async load(signal) {
    const { name } = this.props;
    const [topic, traffic] = await Promise.all([get(path`/topics/${name}`, signal), get(path`/topics/${name}/traffic`, signal)]);
    return { topic, traffic };
  }

  show({ topic, traffic }) {
    const { more, isDeleting } = this.state;
    const sizes = new Map(traffic.partitions.map((one) => [one.partition, one.size_bytes]));
    const close = () => this.setState({ more: false, isDeleting: false });
    const times = traffic.history.map((one) => one.at_ms / 1000);
    return html`
      <${Facts} facts=${[
        { label: "Records", value: short(traffic.traffic.records), note: "offsets between start and end" },
        { label: "Size", value: bytes(traffic.traffic.size_bytes), note: `in each of ${count(topic.replication_factor)} ${topic.replication_factor === 1 ? "replica" : "replicas"}` },
        { label: "Written", value: rate(traffic.traffic.records_per_s), note: byteRate(traffic.traffic.bytes_per_s) },
        { label: "Largest lag", value: short(traffic.traffic.lag), note: "of a group" },
      ]} />
      ${traffic.history.length > 1 && html`<${Panel} title="Records written"><${Chart} label="Records written" times=${times} series=${[{ label: "records", values: traffic.history.map((one) => one.records_per_s), format: rate }]} /><//>`}
      <${Panel} title="Partitions" actions=${html`<button onClick=${() => this.setState({ more: true })}>Add partitions</button><button class="danger" onClick=${() => this.setState({ isDeleting: true })}>Delete topic</button>`}>
        <${Table} label="Partitions" columns=${columns(topic, sizes)} rows=${topic.partition_details} keyOf=${(one) => one.partition} />
      <//>
      ${more && html`<${AddPartitions} topic=${topic} onClose=${close} onDone=${this.again} />`}
      ${isDeleting && html`<${Confirm} title="Delete topic" label="Delete ${topic.name}" text="The topic and all its records are lost. Groups keep their offsets of it until they expire." onClose=${close}
        act=${async () => { await remove(path`/topics/${topic.name}`); say(`Topic ${topic.name} was deleted.`); location.hash = "#/topics"; }} />`}
    `;
  }
}

function columns(topic, sizes) {
  const lacks = (row) => row.in_sync_replicas.length < row.replicas.length;
  return [
    { label: "Partition", isNumber: true, cell: (row) => row.partition },
    { label: "Leader", cell: (row) => (row.leader < 0 ? html`<${Badge} text="none" tone="bad" />` : `broker ${row.leader}`) },
    { label: "Replicas", cell: (row) => row.replicas.join(", ") },
    { label: "In sync", cell: (row) => html`${row.in_sync_replicas.join(", ")}${lacks(row) ? html` <${Badge} text="lacks some" tone="warn" />` : null}` },
    { label: "Start", isNumber: true, cell: (row) => count(row.earliest_offset) },
    { label: "End", isNumber: true, cell: (row) => count(row.latest_offset) },
    { label: "Size", isNumber: true, cell: (row) => bytes(sizes.get(row.partition)) },
    { label: "", cell: (row) => html`<a href="#/topics/${encodeURIComponent(topic.name)}/records?partition=${row.partition}">Records<span class="hidden"> of partition ${row.partition}</span></a>` },
  ];
}

function AddPartitions({ topic, onClose, onDone }) {
  const act = async ({ partitions }) => {
    await patch(path`/topics/${topic.name}`, { partitions: Number(partitions) });
    say(`Topic ${topic.name} has ${partitions} partitions.`);
    onClose();
    onDone();
  };
  return html`<${Dialog} title="Add partitions" onClose=${onClose}>
    <${Doing} label="Add" act=${act}>
      <${Field} label="Partitions in all" hint="Keys move to other partitions: their order across the change is lost. There is no way back.">
        <input name="partitions" type="number" required min=${topic.partitions + 1} defaultValue=${topic.partitions + 1} autofocus />
      <//>
    <//>
  <//>`;
}

class Settings extends Screen {
  every = 0;

  load(signal) {
    return get(path`/configs/topics/${this.props.name}?documentation=true`, signal);
  }

  show({ configs }) {
    const { editing, search = "" } = this.state;
    const rows = configs.filter((one) => one.name.includes(search)).sort((one, other) => (other.source === "topic") - (one.source === "topic") || (one.name < other.name ? -1 : 1));
    const list = [
      { label: "Setting", cell: (row) => html`<span title=${row.documentation}>${row.name}</span>`, isMono: true },
      { label: "Value", cell: (row) => html`<span class="clip">${row.sensitive ? "hidden" : row.value}</span>`, isMono: true },
      { label: "From", cell: (row) => (row.source === "topic" ? html`<${Badge} text="this topic" tone="good" />` : row.source) },
      { label: "", cell: (row) => (row.read_only ? "" : html`<button class="small" onClick=${() => this.setState({ editing: row })} aria-label="Change ${row.name}">Change</button>`) },
    ];
    return html`
      <div class="bar"><input type="search" class="search" data-search aria-label="Search settings" placeholder="Search settings" value=${search} onInput=${(event) => this.setState({ search: event.target.value })} /></div>
      <${Table} label="Settings" columns=${list} rows=${rows} keyOf=${(one) => one.name} />
      ${editing && html`<${Change} name=${this.props.name} row=${editing} onClose=${() => this.setState({ editing: null })} onDone=${this.again} />`}
    `;
  }
}

function Change({ name, row, onClose, onDone }) {
  const set = async (value) => {
    await patch(path`/configs/topics/${name}`, { configs: { [row.name]: value } });
    say(`${row.name} was changed.`);
    onClose();
    onDone();
  };
  return html`<${Dialog} title=${row.name} onClose=${onClose}>
    <p class="quiet">${row.documentation}</p>
    <${Doing} label="Change" act=${({ value }) => set(value)} extra=${row.source === "topic" && html`<button type="button" onClick=${() => set(null)}>Back to the default</button>`}>
      <${Field} label="Value"><input name="value" defaultValue=${row.value} autofocus spellcheck=${false} /><//>
    <//>
  <//>`;
}

/** All topics: a window of a long listing, which the broker filters and sorts. */

import { get, post, query } from "../api.js";
import { Badge, Component, Dialog, Doing, Field, Header, LongTable, Search, html, say } from "../widgets.js";
import { byteRate, bytes, count, rate, short } from "../formats.js";

const COLUMNS = [
  { label: "Topic", sort: "name", cell: (row) => html`<a href="#/topics/${encodeURIComponent(row.name)}">${row.name}</a>${row.internal ? html` <${Badge} text="internal" />` : null}` },
  { label: "Partitions", sort: "partitions", isNumber: true, cell: (row) => count(row.partitions) },
  { label: "Replicas", isNumber: true, cell: (row) => count(row.replication_factor) },
  { label: "Records", sort: "records", isNumber: true, cell: (row) => short(row.traffic?.records) },
  { label: "Size", sort: "size_bytes", isNumber: true, cell: (row) => bytes(row.traffic?.size_bytes) },
  { label: "Written", sort: "records_per_s", isNumber: true, cell: (row) => rate(row.traffic?.records_per_s) },
  { label: "Bytes", sort: "bytes_per_s", isNumber: true, cell: (row) => byteRate(row.traffic?.bytes_per_s) },
  { label: "Lag", sort: "lag", isNumber: true, cell: (row) => short(row.traffic?.lag) },
];

export default class Topics extends Component {
  state = { search: this.props.query.search ?? "", sort: this.props.query.sort ?? "name", isReverse: this.props.query.reverse === "true", internal: this.props.query.internal === "true", total: null, isNew: false };

  /** The address names what is seen: a link to it shows the same. */
  change = (changes) => {
    this.setState(changes, () => {
      const { search, sort, isReverse, internal } = this.state;
      history.replaceState(null, "", `#/topics${query({ search, sort: sort === "name" ? "" : sort, reverse: isReverse, internal })}`);
    });
  };

  onSort = (sort) => this.change({ sort, isReverse: sort === this.state.sort ? !this.state.isReverse : false });

  fetchPage = async (offset, limit, signal) => {
    const { search, sort, isReverse, internal } = this.state;
    const found = await get(`/topics${query({ traffic: true, search, sort, reverse: isReverse, internal, offset, limit })}`, signal);
    return { rows: found.topics, total: found.total };
  };

  render(_, { search, sort, isReverse, internal, total, isNew }) {
    return html`
      <${Header} title="Topics" note=${total === null ? "" : `${count(total)} ${search ? "found" : "in all"}`}>
        <button class="main" data-new onClick=${() => this.setState({ isNew: true })}>New topic</button>
      <//>
      <div class="bar">
        <${Search} label="Search topics" value=${search} onInput=${(value) => this.change({ search: value })} />
        <label class="check"><input type="checkbox" checked=${internal} onChange=${(event) => this.change({ internal: event.target.checked })} /> Internal topics</label>
      </div>
      <${LongTable} label="Topics" columns=${COLUMNS} keyOf=${(row) => row.name} viewKey=${[search, sort, isReverse, internal].join("|")} sort=${sort} isReverse=${isReverse}
        onSort=${this.onSort} fetchPage=${this.fetchPage} onTotal=${(value) => value !== this.state.total && this.setState({ total: value })} empty=${search ? "No topic has this in its name." : "There is no topic yet."} />
      ${isNew && html`<${NewTopic} onClose=${() => this.setState({ isNew: false })} />`}
    `;
  }
}

function NewTopic({ onClose }) {
  const act = async (given) => {
    const configs = Object.fromEntries(given.configs.split("\n").filter((line) => line.includes("=")).map((line) => [line.slice(0, line.indexOf("=")).trim(), line.slice(line.indexOf("=") + 1).trim()]));
    const body = { name: given.name, configs };
    if (given.partitions) body.partitions = Number(given.partitions);
    if (given.replicas) body.replication_factor = Number(given.replicas);
    await post("/topics", body);
    say(`Topic ${given.name} was created.`);
    onClose();
    location.hash = `#/topics/${encodeURIComponent(given.name)}`;
  };
  return html`<${Dialog} title="New topic" onClose=${onClose}>
    <${Doing} label="Create" act=${act}>
      <${Field} label="Name"><input name="name" required autofocus spellcheck=${false} autocomplete="off" /><//>
      <div class="fields">
        <${Field} label="Partitions" hint="Empty: the broker's default"><input name="partitions" type="number" min="1" /><//>
        <${Field} label="Replicas" hint="Empty: the broker's default"><input name="replicas" type="number" min="1" /><//>
      </div>
      <${Field} label="Settings" hint="One a line: retention.ms=86400000"><textarea name="configs" spellcheck=${false}></textarea><//>
    <//>
  <//>`;
}

/** Queues (share groups): members, progress, held records with their locks, release and reject. */

import { get, path, post } from "../api.js";
import { Badge, Confirm, Facts, Header, Panel, Screen, Table, html, say } from "../widgets.js";
import { count, seconds } from "../formats.js";
import { GroupList, Members } from "./groups.js";

const TONES = { acquired: "warn", available: "", archiving: "bad" };

export default function Queues({ name, query }) {
  return name ? html`<${Queue} name=${name} />` : html`<${GroupList} part="queues" type="share" title="Queues" query=${query} empty="There is no queue (share group) yet." />`;
}

class Queue extends Screen {
  load(signal) {
    return get(path`/queues/${this.props.name}`, signal);
  }

  acknowledge = async (row, action) => {
    const { name } = this.props;
    const records = [];
    for (let offset = row.first_offset; offset <= row.last_offset; offset += 1) records.push({ topic: row.topic, partition: row.partition, offset, action });
    await post(path`/queues/${name}/acknowledge`, { member_id: row.member_id, records });
    say(`${count(records.length)} ${records.length === 1 ? "record was" : "records were"} ${action === "release" ? "released" : "rejected"}.`);
    this.again();
  };

  render() {
    return html`<${Header} title=${this.props.name} back=${{ href: "#/queues", label: "← Queues" }} />${super.render()}`;
  }

  show(queue) {
    const { rejecting } = this.state;
    const range = (row) => (row.first_offset === row.last_offset ? row.first_offset : `${row.first_offset}–${row.last_offset}`);
    const partitions = [
      { label: "Topic", cell: (row) => html`<a href="#/topics/${encodeURIComponent(row.topic)}">${row.topic}</a>` },
      { label: "Partition", isNumber: true, cell: (row) => row.partition },
      { label: "Done before", isNumber: true, cell: (row) => count(row.start_offset) },
      { label: "Lag", isNumber: true, cell: (row) => count(row.lag) },
    ];
    const held = [
      { label: "Records", cell: (row) => html`<a href="#/topics/${encodeURIComponent(row.topic)}/records?partition=${row.partition}&from=offset:${row.first_offset}">${row.topic} ${row.partition}/${range(row)}</a>` },
      { label: "State", cell: (row) => html`<${Badge} text=${row.state} tone=${TONES[row.state]} />` },
      { label: "Delivered", isNumber: true, cell: (row) => count(row.delivery_count) },
      { label: "Lock ends in", isNumber: true, cell: (row) => (row.lock_left_ms === null ? "–" : seconds(row.lock_left_ms / 1000)) },
      { label: "Member", cell: (row) => html`<span class="clip">${row.member_id || "–"}</span>`, isMono: true },
      { label: "", cell: (row) => (row.state === "acquired" ? html`<button class="small" onClick=${() => this.acknowledge(row, "release").catch((fault) => this.setState({ problem: fault }))} aria-label="Release ${range(row)}">Release</button> <button class="small danger" onClick=${() => this.setState({ rejecting: row })} aria-label="Reject ${range(row)}">Reject</button>` : "") },
    ];
    return html`
      <${Facts} facts=${[
        { label: "Members", value: count(queue.members.length) },
        { label: "Lag", value: count(queue.lag), note: "records" },
        { label: "Held now", value: count(queue.held), note: "records under a lock" },
        { label: "State", value: queue.state },
      ]} />
      <${Panel} title="Records in delivery"><${Table} label="Records in delivery" columns=${held} rows=${queue.records} empty="No member holds a record, and none waits to be delivered again." keyOf=${(row) => `${row.topic}/${row.partition}/${row.first_offset}`} /><//>
      <${Panel} title="Partitions"><${Table} label="Partitions" columns=${partitions} rows=${queue.partitions} empty="The queue has no topic yet." keyOf=${(row) => `${row.topic}/${row.partition}`} /><//>
      <${Panel} title="Members"><${Members} members=${queue.members} /><//>
      ${rejecting && html`<${Confirm} title="Reject records" label="Reject" text="No member gets records ${range(rejecting)} of ${rejecting.topic} any more; they become dead letters where the queue has a topic for them." onClose=${() => this.setState({ rejecting: null })} act=${() => this.acknowledge(rejecting, "reject")} />`}
    `;
  }
}

/** Topics of dead letters: those whose names say so, or any that is named here. */

import { Component, Doing, Field, Header, LongTable, Panel, html } from "../widgets.js";
import { get, query } from "../api.js";
import { bytes, rate, short } from "../formats.js";

const COLUMNS = [
  { label: "Topic", cell: (row) => html`<a href="#/topics/${encodeURIComponent(row.name)}/dead-letters">${row.name}</a>` },
  { label: "Letters", isNumber: true, cell: (row) => short(row.traffic?.records) },
  { label: "Size", isNumber: true, cell: (row) => bytes(row.traffic?.size_bytes) },
  { label: "Arriving", isNumber: true, cell: (row) => rate(row.traffic?.records_per_s) },
];
const WORDS = ["dlq", "dead", "dlt"];

export default class DeadLetters extends Component {
  /** Few topics have such names: the three listings are joined here. */
  fetchPage = async (offset, limit, signal) => {
    const pages = await Promise.all(WORDS.map((search) => get(`/topics${query({ search, traffic: true, limit: 1000 })}`, signal)));
    const rows = [...new Map(pages.flatMap((page) => page.topics).map((one) => [one.name, one])).values()].sort((one, other) => (one.name < other.name ? -1 : 1));
    return { rows: rows.slice(offset, offset + limit), total: rows.length };
  };

  render() {
    return html`
      <${Header} title="Dead letters" note="Records that a group gave up: where each comes from, why, and back again" />
      <${Panel} title="Look at another topic">
        <${Doing} label="Show its letters" act=${async ({ topic }) => { location.hash = `#/topics/${encodeURIComponent(topic)}/dead-letters`; }}>
          <${Field} label="Topic"><input name="topic" required data-search spellcheck=${false} autocomplete="off" /><//>
        <//>
      <//>
      <${LongTable} label="Topics of dead letters" columns=${COLUMNS} keyOf=${(row) => row.name} viewKey="all" fetchPage=${this.fetchPage} empty="No topic has dlq, dlt or dead in its name." />
    `;
  }
}

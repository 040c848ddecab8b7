/** Records of a topic: seek, search, live tail, produce, edit and republish, download. */

import { get, patch, path, post, query, stream } from "../api.js";
import { Badge, Component, Dialog, Doing, Field, Refusal, Screen, createRef, html, say } from "../widgets.js";
import { contentOf, count, csvCell, download, hex, indented, isJson, kindOf, time } from "../formats.js";

const SHOWN_MAX = 500;
const TAIL_MS = 250;
const BUDGET_MS = 700;
const PAGE = 100;
const LAST_SEARCHED = 1_000_000;
/** Addresses of requests may have 8 KB, of which conditions and cursors need some. */
const ADDRESS_MAX = 6000;
const FORMATS = { "": "As it is", avro: "Avro", protobuf: "Protobuf" };

/** How values of a topic are decoded in this tab, where the reader said so; a schema is too long for an address. */
const decodings = new Map();

/** The newest first; among equal times by place. */
const newestFirst = (one, other) => other.timestamp - one.timestamp || other.partition - one.partition || other.offset - one.offset;
const keyOf = (row) => `${row.partition}/${row.offset}`;

export default class Records extends Component {
  state = { where: this.props.query.where ?? "", begin: this.props.query.from ?? "last", partition: this.props.query.partition ?? "", rows: [], scanned: 0, left: 0, cursor: null, isBusy: false, isComplete: false, isTail: false, problem: null, chosen: null, producing: null, decoding: decodings.get(this.props.name) ?? null, isDecoding: false };

  componentDidMount() {
    this.search();
  }

  componentWillUnmount() {
    this.stop();
  }

  componentDidUpdate(before) {
    if (before.query.partition !== this.props.query.partition) this.setState({ partition: this.props.query.partition ?? "" }, () => this.search());
  }

  stop = () => {
    this.aborting?.abort();
    this.source?.close();
    this.source = null;
    clearInterval(this.flushing);
    this.setState({ isBusy: false, isTail: false });
  };

  parameters() {
    const { where, begin, partition } = this.state;
    const share = Math.max(5, Math.ceil(PAGE / (partition === "" ? this.partitions : 1)));
    const place = begin === "last" ? { last: where ? LAST_SEARCHED : share } : { from: begin };
    const isNewest = begin === "last" && !where;
    return { where, partition, ...this.state.decoding, encoding: "text", count: isNewest ? 500 : PAGE, budget_ms: BUDGET_MS, ...place };
  }

  /** A piece of the search; a long schema goes in a body. */
  ask(cursor, signal) {
    const { name } = this.props;
    const asked = { ...this.parameters(), cursor };
    if (query(asked).length <= ADDRESS_MAX) return get(path`/topics/${name}/search` + query(asked), signal);
    const given = Object.entries(asked).filter(([, value]) => value !== undefined && value !== null && value !== "");
    return post(path`/topics/${name}/search`, { ...Object.fromEntries(given), ...(asked.partition === "" ? {} : { partition: Number(asked.partition) }) }, signal);
  }

  /** Search from the beginning of the range, or from where the search before came to. */
  search = async (cursor = null) => {
    this.stop();
    const aborting = (this.aborting = new AbortController());
    const { where, begin, partition } = this.state;
    history.replaceState(null, "", `#/topics/${encodeURIComponent(this.props.name)}/records${query({ where, from: begin === "last" ? "" : begin, partition })}`);
    this.setState({ isBusy: true, problem: null, isComplete: false, ...(cursor ? {} : { rows: [], scanned: 0, left: 0, cursor: null }) });
    const goal = begin === "last" && !where ? Infinity : (cursor ? this.state.rows.length : 0) + PAGE;
    try {
      this.partitions ??= (await get(path`/topics/${this.props.name}`, aborting.signal)).partitions;
      let isDone = false;
      while (!isDone) {
        const found = await this.ask(cursor, aborting.signal);
        cursor = found.next_cursor;
        const rows = [...this.state.rows, ...found.messages];
        isDone = found.is_complete || rows.length >= Math.min(goal, SHOWN_MAX);
        this.setState({ rows, cursor, scanned: this.state.scanned + found.scanned, left: found.left, isComplete: found.is_complete });
      }
    } catch (fault) {
      if (fault.name === "AbortError" || aborting.signal.aborted) return;
      this.setState({ problem: fault });
    }
    this.setState({ isBusy: false });
  };

  /** Records as they arrive: the page keeps the newest, and draws a few times a second. */
  tail = () => {
    this.stop();
    if (query(this.state.decoding ?? {}).length > ADDRESS_MAX) {
      this.setState({ problem: { message: "The schema is too long for a live tail, which has only an address: save it for everybody, as a setting of the topic." } });
      return;
    }
    this.setState({ isTail: true, rows: [], scanned: 0, left: 0, problem: null, isComplete: false });
    let pending = [];
    const source = (this.source = stream(this.props.name, { ...this.state.decoding, where: this.state.where, from: "latest", encoding: "text" }));
    source.onmessage = (event) => {
      const row = JSON.parse(event.data);
      if (this.state.partition === "" || row.partition === Number(this.state.partition)) pending.push(row);
      if (pending.length > SHOWN_MAX) pending = pending.slice(-SHOWN_MAX);
    };
    source.addEventListener("problem", (event) => this.setState({ problem: { message: JSON.parse(event.data).detail } }));
    source.onerror = () => source.readyState === EventSource.CLOSED && (this.stop(), this.setState({ problem: { message: "The stream ended: the broker refused it, or your right to read the topic has ended." } }));
    this.flushing = setInterval(() => {
      if (!pending.length) return;
      const rows = [...this.state.rows, ...pending].slice(-SHOWN_MAX);
      this.setState({ rows, scanned: this.state.scanned + pending.length });
      pending = [];
    }, TAIL_MS);
  };

  save = (kind) => {
    const { rows } = this.state;
    if (kind === "ndjson") download(`${this.props.name}.ndjson`, "application/x-ndjson", rows.map((row) => JSON.stringify(row) + "\n").join(""));
    else download(`${this.props.name}.csv`, "text/csv", ["partition,offset,timestamp,key,value", ...rows.map((row) => [row.partition, row.offset, row.timestamp, row.key, row.value].map(csvCell).join(","))].join("\r\n"));
  };

  /** Look again, with other eyes. */
  decode = (decoding) => {
    if (decoding) decodings.set(this.props.name, decoding);
    else decodings.delete(this.props.name);
    this.setState({ decoding, isDecoding: false }, () => this.search());
  };

  render({ name }, state) {
    const { decoding, isDecoding, where, begin, partition, isBusy, isTail, problem, chosen, producing, cursor, isComplete, rows, scanned, left } = state;
    const shown = [...rows].sort(newestFirst);
    return html`
      <form class="bar" onSubmit=${(event) => { event.preventDefault(); this.search(); }}>
        <input class="where" data-search aria-label="Condition" placeholder='json.amount > 100 and key != "test"' value=${where} onInput=${(event) => this.setState({ where: event.target.value })} spellcheck=${false} autocomplete="off" />
        <${Place} begin=${begin} onChange=${(value) => this.setState({ begin: value })} />
        <input type="number" min="0" aria-label="Partition" placeholder="All partitions" style=${{ width: "130px" }} value=${partition} onInput=${(event) => this.setState({ partition: event.target.value })} />
        ${isBusy ? html`<button type="button" onClick=${this.stop}>Stop</button>` : html`<button class="main">Search</button>`}
        ${isTail ? html`<button type="button" onClick=${this.stop}>Stop live tail</button>` : html`<button type="button" onClick=${this.tail}>Live tail</button>`}
        <button type="button" onClick=${() => this.setState({ isDecoding: true })}>${decoding ? `Decoded: ${FORMATS[decoding.value_format] ?? "as it is"}` : "Decode …"}</button>
        <button type="button" data-new onClick=${() => this.setState({ producing: { partition: "", key: "", value: "", headers: {} } })}>Produce</button>
      </form>
      ${problem && html`<${Refusal} problem=${problem} />`}
      ${isBusy && html`<div class="progress" role="progressbar" aria-label="Search" aria-valuenow=${scanned} aria-valuemin="0" aria-valuemax=${scanned + left}><span style=${{ width: `${scanned + left ? (100 * scanned) / (scanned + left) : 0}%` }}></span></div>`}
      <div class="bar">
        <span class="quiet grow" role="status">${isTail ? `Live: ${count(scanned)} records since it began${shown.length >= SHOWN_MAX ? `, the newest ${SHOWN_MAX} are shown` : ""}` : `${count(shown.length)} found among ${count(scanned)} read${left && !isComplete ? `, ${count(left)} left` : ""}`}</span>
        ${shown.length > 0 && html`<button class="small" onClick=${() => this.save("ndjson")}>Download JSON</button><button class="small" onClick=${() => this.save("csv")}>Download CSV</button>`}
      </div>
      <${List} rows=${shown} isLoading=${isBusy || isTail} onChoose=${(row) => this.setState({ chosen: row })} />
      ${cursor && !isComplete && !isBusy && !isTail && html`<p><button onClick=${() => this.search(cursor)}>Search on</button></p>`}
      ${chosen && html`<${RecordView} topic=${name} row=${chosen} onClose=${() => this.setState({ chosen: null })} onRepublish=${(row) => this.setState({ chosen: null, producing: row })} />`}
      ${isDecoding && html`<${Decode} topic=${name} decoding=${decoding} onClose=${() => this.setState({ isDecoding: false })} onDone=${this.decode} />`}
      ${producing && html`<${Produce} topic=${name} record=${producing} onClose=${() => this.setState({ producing: null })} onDone=${() => !isTail && this.search()} />`}
    `;
  }
}

/** Where a search begins. */
function Place({ begin, onChange }) {
  const isTime = begin !== "last" && begin !== "earliest" && !begin.startsWith("offset:");
  const kind = begin.startsWith("offset:") ? "offset" : isTime ? "time" : begin;
  const choose = (value) => onChange(value === "offset" ? "offset:0" : value === "time" ? localNow(3600) : value);
  return html`
    <select aria-label="Where to begin" value=${kind} onChange=${(event) => choose(event.target.value)}>
      <option value="last">Newest</option><option value="earliest">Oldest</option><option value="offset">Offset …</option><option value="time">Time …</option>
    </select>
    ${kind === "offset" && html`<input type="number" min="0" aria-label="Offset" style=${{ width: "130px" }} value=${begin.slice(7)} onInput=${(event) => onChange(`offset:${event.target.value || 0}`)} />`}
    ${kind === "time" && html`<input type="datetime-local" step="1" aria-label="Time" value=${localOf(begin)} onInput=${(event) => event.target.value && onChange(String(new Date(event.target.value).getTime()))} />`}
  `;
}

const localNow = (secondsAgo) => String(Date.now() - secondsAgo * 1000);
function localOf(ms) {
  const at = new Date(Number(ms) || ms);
  return Number.isNaN(at.getTime()) ? "" : time(at.getTime()).replace(" ", "T").slice(0, 19);
}

function List({ rows, isLoading, onChoose }) {
  if (!rows.length) return html`<p class="quiet empty panel">${isLoading ? "Waiting for records …" : "No record was found."}</p>`;
  return html`<div class="scroll long records" tabindex="0" role="region" aria-label="Records">
    <table>
      <thead><tr><th scope="col" class="number">Partition</th><th scope="col" class="number">Offset</th><th scope="col">Time</th><th scope="col">Key</th><th scope="col">Value</th></tr></thead>
      <tbody>${rows.map(
        (row) => html`<tr key=${keyOf(row)}>
          <td class="number">${row.partition}</td>
          <td class="number"><button class="link mono" onClick=${() => onChoose(row)} aria-label="Record ${row.offset} of partition ${row.partition}">${row.offset}</button></td>
          <td class="mono">${time(row.timestamp)}</td>
          <td class="mono clip">${row.key === null ? html`<span class="quiet">none</span>` : row.key_encoding ? html`<${Badge} text="binary" /> ${row.key.slice(0, 40)}` : row.key.slice(0, 200)}</td>
          <td class="mono clip">${row.value === null ? html`<${Badge} text="null" />` : row.value_encoding === "base64" ? html`<${Badge} text="binary" /> ${row.value.slice(0, 80)}` : row.value.slice(0, 300)}</td>
        </tr>`
      )}</tbody>
    </table>
  </div>`;
}

/** One record, decoded. */
class RecordView extends Component {
  constructor(properties) {
    super(properties);
    const { row } = properties;
    const isText = row.value !== null && row.value_encoding !== "base64";
    this.canJson = isText && isJson(row.value);
    this.isText = isText;
    this.state = { form: this.canJson ? "json" : isText ? "text" : "hex" };
  }

  render({ topic, row, onClose, onRepublish }, { form }) {
    const content = row.value_bytes ? contentOf(row.value_bytes, "base64") : contentOf(row.value, row.value_encoding);
    const schema = row.value_format ? "" : kindOf(content);
    const forms = [...(this.canJson ? ["json"] : []), ...(this.isText ? ["text"] : []), "hex"];
    const headers = Object.entries(row.headers);
    const copied = { partition: String(row.partition), key: row.key_encoding ? row.key : row.key ?? "", keyEncoding: row.key_encoding, hasKey: row.key !== null, value: row.value_bytes ?? row.value ?? "", valueEncoding: row.value_bytes ? "base64" : row.value_encoding, isNull: row.value === null, headers: row.headers, rawHeaders: row.raw_headers };
    return html`<${Dialog} title="Record ${row.offset} of partition ${row.partition}" isWide onClose=${onClose}>
      <div class="record">
        <dl class="pairs">
          <dt>Topic</dt><dd>${topic}</dd>
          <dt>Time</dt><dd class="mono">${time(row.timestamp)}</dd>
          <dt>Key</dt><dd class="mono">${row.key ?? "none"} ${row.key_encoding && html`<${Badge} text="base64" />`}</dd>
          ${headers.map(([name, value]) => html`<dt key=${name}>Header</dt><dd class="mono">${name}: ${value ?? "null"}</dd>`)}
          <dt>Value</dt><dd>${content === null ? "null" : `${count(content.length)} bytes`} ${schema && schema !== "null" && html`<${Badge} text=${`${schema} of a registry, not decoded`} />`} ${row.value_format && html`<${Badge} text=${FORMATS[row.value_format]} tone="good" />`}</dd>
          ${row.value_problem && html`<dt>Not decoded</dt><dd>${row.value_problem}</dd>`}
        </dl>
        ${content !== null && html`
          <div class="bar" role="group" aria-label="Form of the value">${forms.map((one) => html`<button class="small ${one === form ? "main" : ""}" aria-pressed=${one === form} onClick=${() => this.setState({ form: one })}>${one === "json" ? "JSON" : one === "text" ? "Text" : "Hex"}</button>`)}</div>
          <pre class="content ${form}" tabindex="0" aria-label="Value">${form === "json" ? indented(row.value) : form === "text" ? row.value : hex(content)}</pre>`}
        <div class="form-end">
          <button onClick=${() => download(`${topic}-${row.partition}-${row.offset}`, "application/octet-stream", content ?? "")}>Download value</button>
          <button class="main" onClick=${() => onRepublish(copied)}>Edit and republish</button>
        </div>
      </div>
    <//>`;
  }
}

/** By which schema values are shown: in this tab, or for everybody, as the topic's settings. */
class Decode extends Screen {
  every = 0;
  form = createRef();

  async load(signal) {
    const { configs } = await get(path`/configs/topics/${this.props.topic}`, signal).catch((fault) => (fault.status === 403 ? { configs: [] } : Promise.reject(fault)));
    const set = Object.fromEntries(configs.map((one) => [one.name, one.value]));
    const { decoding } = this.props;
    const format = decoding?.value_format ?? set["value.format"] ?? "";
    this.setState({ format: format === "none" ? "" : format });
    return decoding ?? { value_schema: set["value.schema"], value_message: set["value.message"], value_framing: set["value.framing"] };
  }

  parameters(given) {
    return { value_format: given.format || "none", value_schema: given.schema ?? "", value_message: given.message ?? "", value_framing: given.framing ?? "none" };
  }

  /** For everybody: a setting of the topic, which the broker checks. */
  save = async () => {
    const given = Object.fromEntries(new FormData(this.form.current.closest("form")));
    const wanted = this.parameters(given);
    const configs = given.format
      ? { "value.format": given.format, "value.schema": wanted.value_schema, "value.message": wanted.value_message || null, "value.framing": wanted.value_framing }
      : { "value.format": null, "value.schema": null, "value.message": null, "value.framing": null };
    try {
      await patch(path`/configs/topics/${this.props.topic}`, { configs });
      say(`The format is a setting of ${this.props.topic} now.`);
      this.props.onDone(null);
    } catch (fault) {
      this.setState({ problem: fault });
    }
  };

  render() {
    return html`<${Dialog} title="Decode values of ${this.props.topic}" isWide onClose=${this.props.onClose}>${super.render()}<//>`;
  }

  show(known) {
    const { format } = this.state;
    return html`<${Doing} label="Show" act=${async (given) => this.props.onDone(this.parameters(given))} extra=${html`<button type="button" onClick=${this.save}>Save for everybody</button>`}>
      <div class="fields" ref=${this.form}>
        <${Field} label="Format"><select name="format" value=${format} autofocus onChange=${(event) => this.setState({ format: event.target.value })}>${Object.entries(FORMATS).map(([value, label]) => html`<option value=${value} selected=${value === format}>${label}</option>`)}</select><//>
        ${format && html`<${Field} label="Prefix of a schema registry"><select name="framing"><option value="none">None</option><option value="confluent" selected=${known.value_framing === "confluent"}>Confluent's, five bytes</option></select><//>`}
      </div>
      ${format && html`<${Field} label="Schema" hint=${format === "avro" ? "Avro's JSON" : "protoc --include_imports --descriptor_set_out=/dev/stdout FILE.proto | base64 -w0"}><textarea name="schema" required spellcheck=${false} rows="8">${known.value_schema ?? ""}</textarea><//>`}
      ${format === "protobuf" && html`<${Field} label="Message" hint="Where the descriptor has several: shop.Order"><input name="message" defaultValue=${known.value_message ?? ""} spellcheck=${false} /><//>`}
    <//>`;
  }
}

const linesOf = (headers) => Object.entries(headers).map(([name, value]) => `${name}: ${value ?? ""}`).join("\n");

/** A text as a field hands it back. */
const typed = (text) => text.replace(/\r\n?/g, "\n");

/** Writes a record: a new one, or a changed copy. */
class Produce extends Component {
  form = createRef();

  act = async (given) => {
    const { topic, record, onClose, onDone } = this.props;
    // Fields of a form change line ends: what was not edited is written as it was.
    const kept = (text, was) => (text === typed(was) ? was : text);
    const body = { value: given.isNull ? null : kept(given.value, record.value), value_encoding: record.valueEncoding === "base64" ? "base64" : "text" };
    if (given.isNull) delete body.value_encoding;
    if (given.key || record.hasKey) body.key = given.key === typed(record.key).replaceAll("\n", "") ? record.key : given.key;
    if (record.keyEncoding && given.key) body.key_encoding = record.keyEncoding;
    if (given.partition !== "") body.partition = Number(given.partition);
    const headers = given.headers.split("\n").filter((line) => line.includes(":"));
    if (given.headers === typed(linesOf(record.headers))) Object.assign(body, record.rawHeaders ? { raw_headers: record.rawHeaders } : { headers: record.headers });
    else if (headers.length) body.headers = Object.fromEntries(headers.map((line) => [line.slice(0, line.indexOf(":")).trim(), line.slice(line.indexOf(":") + 1).trim()]));
    const done = await post(path`/topics/${topic}/records`, body);
    say(`Written: partition ${done.partition}, offset ${done.offset}.`);
    onClose();
    onDone();
  };

  render({ topic, record, onClose }) {
    const lines = linesOf(record.headers);
    return html`<${Dialog} title="Produce to ${topic}" isWide onClose=${onClose}>
      <${Doing} label="Produce" act=${this.act}>
        <div class="fields">
          <${Field} label="Key" hint=${record.keyEncoding ? "base64, as it was" : "Empty: none"}><input name="key" defaultValue=${record.key} spellcheck=${false} autofocus /><//>
          <${Field} label="Partition" hint="Empty: by the key, or in turn"><input name="partition" type="number" min="0" defaultValue=${record.partition} /><//>
        </div>
        <${Field} label="Value" hint=${record.valueEncoding === "base64" ? "base64, as it was" : "Stored as it is written here"}><textarea name="value" spellcheck=${false} rows="10">${record.value}</textarea><//>
        <${Field} label="Headers" hint=${record.rawHeaders ? "One a line. These have repeated names or bytes: they stay exact unless edited" : "One a line: name: value"}><textarea name="headers" spellcheck=${false} style=${{ minHeight: "60px" }}>${lines}</textarea><//>
        <label class="check"><input type="checkbox" name="isNull" defaultChecked=${record.isNull} /> No value (a tombstone)</label>
      <//>
    <//>`;
  }
}

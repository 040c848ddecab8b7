/** The frame of the console: navigation, routes, themes, keys, signing in. */

import { render } from "./vendor/preact.module.js";
import { Component, Dialog, Doing, Field, Refusal, createRef, html, say } from "./widgets.js";
import { events, get, post, remove } from "./api.js";

/** The parts of the console: address, name, key after `g`, module. */
const PARTS = [
  { id: "overview", label: "Overview", key: "o" },
  { id: "topics", label: "Topics", key: "t" },
  { id: "groups", label: "Consumer groups", key: "c" },
  { id: "queues", label: "Queues", key: "q" },
  { id: "dead-letters", label: "Dead letters", key: "d" },
  { id: "transactions", label: "Transactions", key: "x" },
  { id: "clients", label: "Clients", key: "l" },
  { id: "pipelines", label: "Pipelines", key: "p" },
  { id: "edge", label: "Edge tree", key: "e" },
  { id: "security", label: "Users and rules", key: "u" },
  { id: "health", label: "Health", key: "h" },
  { id: "diagnosis", label: "Why is this slow?", key: "w" },
];
const MODULES = {
  overview: () => import("./screens/overview.js"),
  topics: () => import("./screens/topics.js"),
  topic: () => import("./screens/topic.js"),
  groups: () => import("./screens/groups.js"),
  queues: () => import("./screens/queues.js"),
  "dead-letters": () => import("./screens/dead_letters.js"),
  transactions: () => import("./screens/transactions.js"),
  clients: () => import("./screens/clients.js"),
  edge: () => import("./screens/edge.js"),
  pipelines: () => import("./screens/pipelines.js"),
  security: () => import("./screens/security.js"),
  health: () => import("./screens/health.js"),
  diagnosis: () => import("./screens/diagnosis.js"),
};
const THEMES = ["system", "light", "dark"];

/** `#/topics/orders/records?where=…` as {part, name, tab, query}. */
function routeOf(hash) {
  const [address, text] = hash.replace(/^#\/?/, "").split("?");
  const [part, name, tab] = address.split("/").map((one) => {
    try {
      return decodeURIComponent(one);
    } catch {
      return one;
    }
  });
  return { part: part || "overview", name: name || "", tab: tab || "", query: Object.fromEntries(new URLSearchParams(text || "")) };
}

function stored(name, otherwise) {
  try {
    return localStorage.getItem(`qanat.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function store(name, value) {
  try {
    localStorage.setItem(`qanat.${name}`, value);
  } catch {
    // A browser that keeps nothing: the choice lasts until the page closes.
  }
}

function applyTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  dispatchEvent(new Event("themechange"));
}

class App extends Component {
  state = { route: routeOf(location.hash), who: null, cluster: null, Part: null, problem: null, mustSignIn: false, said: "", isHelp: false, theme: stored("theme", "system"), hasKeys: stored("keys", "yes") === "yes" };
  main = createRef();
  /** Each address that is gone to is a screen of its own; screens change the address themselves without going there. */
  visits = 0;

  componentDidMount() {
    applyTheme(this.state.theme);
    events.signInNeeded = () => this.setState({ mustSignIn: true, Part: null });
    addEventListener("hashchange", () => {
      this.visits += 1;
      this.go();
    });
    addEventListener("keydown", this.onKey);
    addEventListener("say", (event) => {
      this.setState({ said: event.detail });
      clearTimeout(this.saying);
      this.saying = setTimeout(() => this.setState({ said: "" }), 6000);
    });
    this.begin();
  }

  begin = async () => {
    try {
      const [who, cluster] = await Promise.all([get("/whoami"), get("/cluster")]);
      this.setState({ who, cluster, mustSignIn: false, problem: null });
      this.go();
    } catch (fault) {
      if (fault.status === 401) return;
      this.setState({ problem: fault });
      setTimeout(this.begin, 2000);
    }
  };

  go = async () => {
    const route = routeOf(location.hash);
    const isOther = route.part !== this.state.route.part || route.name !== this.state.route.name;
    const wanted = MODULES[route.part === "topics" && route.name ? "topic" : route.part] ?? MODULES.overview;
    try {
      const { default: Part } = await wanted();
      if (this.state.mustSignIn) return;
      this.setState({ route, Part, visit: this.visits });
      document.title = `${route.name || PARTS.find((one) => one.id === route.part)?.label || "Qanat"} · Qanat`;
      if (isOther) {
        this.main.current?.scrollTo(0, 0);
        setTimeout(() => document.querySelector("dialog[open]") ?? this.main.current?.querySelector("h1")?.focus({ preventScroll: true }));
      }
    } catch (fault) {
      this.setState({ problem: fault });
    }
  };

  onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !this.state.hasKeys || document.querySelector("dialog[open]")) return;
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (this.afterG) {
      this.afterG = false;
      const part = PARTS.find((one) => one.key === event.key);
      if (part) {
        event.preventDefault();
        location.hash = `#/${part.id}`;
      }
    } else if (event.key === "g") {
      this.afterG = true;
      setTimeout(() => (this.afterG = false), 1500);
    } else if (event.key === "/") {
      const search = document.querySelector("[data-search]");
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (event.key === "n") {
      const first = document.querySelector("[data-new]");
      if (first) {
        event.preventDefault();
        first.click();
      }
    } else if (event.key === "?") this.setState({ isHelp: true });
    else if (event.key === "m") this.nextTheme();
  };

  nextTheme = () => {
    const theme = THEMES[(THEMES.indexOf(this.state.theme) + 1) % THEMES.length];
    store("theme", theme);
    this.setState({ theme }, () => applyTheme(theme));
    say(`Theme: ${theme}`);
  };

  signOut = async () => {
    await remove("/session");
    this.setState({ who: null, mustSignIn: true, Part: null });
  };

  render(_, { route, visit, who, cluster, Part, problem, mustSignIn, said, isHelp, theme, hasKeys }) {
    if (mustSignIn) return html`<${SignIn} onDone=${this.begin} />`;
    return html`
      <a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); this.main.current.focus(); }}>Skip to the content</a>
      <div class="frame">
        <aside>
          <a class="brand" href="#/overview"><img src="icon.svg" width="28" height="28" alt="" /><span>Qanat</span></a>
          <nav aria-label="Console">
            ${PARTS.map((part) => html`<a key=${part.id} href="#/${part.id}" aria-current=${part.id === route.part ? "page" : undefined}>${part.label}</a>`)}
          </nav>
          <div class="foot">
            ${who && html`<p title=${who.principal}>${who.bundle ? `Bundle of ${who.bundle}` : who.requires_sign_in ? who.principal : "No sign-in"}</p>`}
            ${cluster && html`<p class="quiet" title=${cluster.cluster_id}>${cluster.brokers.length} ${cluster.brokers.length === 1 ? "broker" : "brokers"}</p>`}
            <div class="foot-buttons">
              <button class="plain" onClick=${this.nextTheme} aria-label="Theme: ${theme}. Change">${theme === "dark" ? "☾ Dark" : theme === "light" ? "☀ Light" : "◐ System"}</button>
              <button class="plain" onClick=${() => this.setState({ isHelp: true })} aria-label="Keys">?</button>
              ${who?.requires_sign_in && html`<button class="plain" onClick=${this.signOut}>Sign out</button>`}
            </div>
          </div>
        </aside>
        <main ref=${this.main} id="main" tabindex="-1">
          ${problem && html`<${Refusal} problem=${problem} />`}
          ${Part ? html`<${Part} key=${visit} name=${route.name} tab=${route.tab} query=${route.query} who=${who} />` : problem ? null : html`<h1 class="quiet">Loading …</h1>`}
        </main>
      </div>
      <div class="said ${said ? "" : "gone"}" role="status">${said}</div>
      ${isHelp && html`<${Keys} hasKeys=${hasKeys} onClose=${() => this.setState({ isHelp: false })} onChange=${(value) => { store("keys", value ? "yes" : "no"); this.setState({ hasKeys: value }); }} />`}
    `;
  }
}

function Keys({ onClose, hasKeys, onChange }) {
  const rows = [["/", "Search this listing"], ["n", "Create, produce: the first button of a screen"], ["m", "Change the theme"], ["?", "This help"], ["Esc", "Close a window"], ...PARTS.map((part) => [`g ${part.key}`, part.label])];
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <table class="keys"><tbody>${rows.map(([key, meaning]) => html`<tr><td><kbd>${key}</kbd></td><td>${meaning}</td></tr>`)}</tbody></table>
    <label class="check"><input type="checkbox" aria-label="Single keys do something" checked=${hasKeys} onChange=${(event) => onChange(event.target.checked)} /> Single keys do something</label>
  <//>`;
}

class SignIn extends Component {
  state = { hasToken: false };

  render({ onDone }, { hasToken }) {
    const act = async (given) => {
      await post("/session", hasToken ? { token: given.token } : { user: given.user, password: given.password });
      await onDone();
    };
    return html`<main class="sign-in" id="main">
      <div class="panel">
        <img src="icon.svg" width="44" height="44" alt="" />
        <h1>Sign in to Qanat</h1>
        <p class="quiet">The console acts as you: it shows and does what your rules allow.</p>
        <${Doing} label="Sign in" act=${act}>
          ${hasToken
            ? html`<${Field} label="Token or API key"><input name="token" type="password" required autocomplete="off" autofocus /><//>`
            : html`<${Field} label="User"><input name="user" required autocomplete="username" autofocus /><//>
                <${Field} label="Password"><input name="password" type="password" required autocomplete="current-password" /><//>`}
        <//>
        <button class="link" onClick=${() => this.setState({ hasToken: !hasToken })}>${hasToken ? "Use a password" : "Use a token or an API key"}</button>
      </div>
    </main>`;
  }
}

render(html`<${App} />`, document.getElementById("app"));

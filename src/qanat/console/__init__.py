"""The web console: static files that `servers.http.console_files` and `qanat console` serve at `/console`.

- `index.html`   the page; `console.css` its looks, both themes
- `app.js`       the frame: navigation, routes (`#/topics/orders`), themes, keys, signing in
- `api.js`       requests to the broker, and their problems
- `widgets.js`   tables, windows of long lists, dialogs, charts; `formats.js` numbers, times, bytes and records as text
- `screens/`     a module for each screen
- `vendor/`      Preact, htm and uPlot: unmodified files of their releases, with their licences (`VENDORED.md`)

Rule 1: no build step, no inline script or style, nothing from elsewhere, nothing that evaluates text: the policy of the
        page forbids it.
Rule 2: what brokers answer is hostile: it becomes text nodes, never markup.
Rule 3: whatever a screen shows, `curl` can get: screens use documented operations only.

This package has no Python code besides this page of explanation.
"""

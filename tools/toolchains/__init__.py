"""Programs that tests and builds need and a machine may lack: found on it, or brought into `.cache/` without root.

- `registries`       does a registry answer? asked once, for three seconds at most
- `wheels`           programs that PyPI has as wheels: Go, Node.js, zig
- `debian_packages`  packages of Debian and Ubuntu, unpacked and not installed
- `go`, `node`       the two, this machine's where it is new enough
- `kcat`, `etcdctl`  this machine's, or Debian's
- `shells`           zsh and fish, this machine's or Debian's
- `deployment`       what tries `deploy/`: Helm, podman-compose and others, from PyPI
- `prometheus`       the server and promtool, this machine's or Debian's
- `npm_archives`     packages of npm's registry, unpacked without Node.js
- `pyright`          npm's, run by Node.js: the second judge of users' types
- `chromium`         this machine's, or npm's, for tests of the console; axe-core from npm
- `maven`            its repository, for `kafka_jars` and `spark_connector`

Rule 1: what was brought is kept, and appears complete or not at all.
Rule 2: what cannot be had raises `MissingToolError` with one sentence that says what was asked.
Rule 3: `QANAT_OFFLINE=1` forbids to ask anyone.
"""

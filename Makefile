# The developer's manual. `make` lists the targets; every target builds the environment it needs.
#
# A target needs nothing but Python 3.11 or newer. A C compiler is optional: without one the per-record core runs
# interpreted, and a notice says so.

PYTHON ?= python3
VENV   ?= .venv
ARGS   ?=
# Tests run in this many processes: six, or three where they take long. More than two cores have, because tests wait
# for brokers and clients most of their time. A failure reads the same in one: make test JOBS=0
JOBS   ?=
# make sim: how long, and which seeds (a range such as 1-200, or one seed to replay)
SECONDS ?=
SEEDS   ?=

# Hundreds of programs start during the tests: each one reads compiled modules instead of compiling them again.
unexport PYTHONDONTWRITEBYTECODE

BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
PXD    := $(shell find src -name '*.pxd')
NATIVE := $(PXD) $(PXD:.pxd=.py)

# Written when an installation is complete; anything newer than its stamp is installed again.
TOOLS_STAMP  := $(VENV)/.tools-installed
NATIVE_STAMP := $(VENV)/.native-compiled
DOCS_STAMP   := $(VENV)/.docs-installed
PEERS_STAMP  := $(VENV)/.peers-installed
READY        := $(TOOLS_STAMP) $(NATIVE_STAMP)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: guard performance security-fire spark-fire spark-backlog spark-connector bench-spark help setup demo test test-long test-data check format codec clients bench bench-kafka bench-peers bench-three bench-protected bench-http bench-failover bench-client bench-push bench-edge fuzz-push sim sim-edge edge-fire sim-log bug-bank mutants growth stores chaos restart queue fuzz docs dist deploy-test clean distclean app-fire diagnosis bench-console

help: ## show this list
	@echo "Qanat: make TARGET [VARIABLE=value]"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | while IFS='|' read -r name meaning; do printf '%-16s %s\n' "$$name" "$$meaning"; done

setup: $(READY) ## make .venv with Qanat (editable) and every tool
	@echo "Ready: $(BIN)/qanat --help"

demo: $(READY) ## the demonstration: a broker, the pipeline on Spark, the log; four minutes at most; ARGS=--stay keeps its console
	@$(BIN)/python -m demo $(ARGS)

test: $(READY) ## run the tests; make test ARGS="-k retention -x"
	@$(BIN)/python -m pytest -q -n $(or $(JOBS),6) --dist loadscope --hypothesis-profile=quick -m "not long" --durations=15 --durations-min=5 $(ARGS)

test-long: $(READY) ## the tests that take long, or compare with Apache Kafka where it is available, and more examples of properties; 45 minutes at most
	@$(BIN)/python -m pytest -q -n $(or $(JOBS),3) --dist loadscope --hypothesis-profile=ci -m "long or hypothesis" $(ARGS)

# Only files with such tests are collected: all files take each process half a minute on a busy machine.
test-data: $(READY) ## of the long tests those that guard data: several processes, outages, upgrade, power cuts, Spark; pages of operators; twenty minutes at most
	@$(BIN)/python -m pytest -q -n $(or $(JOBS),3) --dist loadscope --hypothesis-profile=ci -m "long and data" --durations=25 --durations-min=1 $(ARGS) \
		$$(grep -rl --include='test_*.py' 'mark\.data\b' tests | sort)

clients: $(READY) ## try every Kafka client, log in by every mechanism, and rewrite the tables of the documentation
	@QANAT_CLIENT_RESULTS=.cache/clients.json $(BIN)/python -m pytest -q -n 0 --maxfail 3 tests/clients/test_matrix.py tests/clients/test_transactions.py $(ARGS)
	@$(BIN)/python -m tools.kafka_page .cache/clients.json
	@QANAT_CLIENT_RESULTS=.cache/logins.json $(BIN)/python -m pytest -q -n 0 --maxfail 3 --ignore=tests/clients/logins/test_page.py tests/clients/logins
	@$(BIN)/python -m tests.clients.logins.page

check: $(READY) ## formatting, lint, strict types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## format the sources as check requires
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

codec: $(READY) ## generate src/qanat/wire/kafka/messages from Kafka's schemas
	@$(BIN)/python tools/generate_codec.py $(ARGS)

bench: $(READY) ## measure the log on this machine; make bench ARGS="--help" for the options
	@$(BIN)/qanat bench log $(ARGS)

bench-kafka: $(READY) ## compare a broker with Apache Kafka; make bench-kafka ARGS="--quick"
	@$(BIN)/python -m bench $(ARGS)

bench-peers: $(READY) $(PEERS_STAMP) ## compare a broker with NATS, Redis and RabbitMQ where installed; make bench-peers ARGS="--quick"
	@$(BIN)/python -m bench.peers $(ARGS)

performance: $(READY) $(PEERS_STAMP) ## the whole report, docs/performance: an hour at most; make performance ARGS="--quick"
	@$(BIN)/python -m bench.report $(ARGS)

guard: $(READY) ## performance regressions: fails where a path is twice as slow, in seconds; make test allows three times
	@$(BIN)/python -m bench.regression $(ARGS)

bench-failover: $(READY) ## measure failover, restarts and many partitions of three brokers; make bench-failover ARGS="--quick"
	@$(BIN)/python -m bench.failover $(ARGS)

bench-three: $(READY) ## compare three brokers with three of Apache Kafka; make bench-three ARGS="--quick"
	@$(BIN)/python -m bench.three $(ARGS)

bench-protected: $(READY) ## compare a protected broker with Apache Kafka, TLS, SASL and ACLs on both sides; make bench-protected ARGS="--quick"
	@$(BIN)/python -m bench.protected $(ARGS)

bench-console: $(READY) ## the web console with 5,000 topics and 10,000 groups beside its bars; make bench-console ARGS="--topics 300 --groups 500"
	@$(BIN)/python -m bench.console $(ARGS)

bench-http: $(READY) ## compare the HTTP server with a bare handler; make bench-http ARGS="--quick"
	@$(BIN)/python -m bench.http $(ARGS)

sim: $(READY) ## simulate clusters under seeded faults, then logs; make sim SECONDS=60 or SEEDS=1-200
	@$(BIN)/python -m verify.clusters --jobs 2 $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)
	@$(MAKE) --no-print-directory sim-log

bug-bank: $(READY) ## put known bugs back into the product: the simulation must find each; ARGS="never_truncate" for one
	@$(BIN)/python -m verify.clusters.bug_bank $(ARGS)

mutants: $(READY) ## break one line of the correctness core at a time: a test must notice; ARGS="--sample 200" or "--line FILE:LINE"
	@$(BIN)/python -m verify.mutants --jobs 2 $(ARGS)

growth: $(READY) ## the cost of the metadata plane of simulated clusters up to 100 brokers; ARGS="--sizes 30:3000"
	@$(BIN)/python -m verify.clusters.growth $(ARGS)

sim-log: $(READY) ## cut a simulated log's power at every operation; make sim-log SECONDS=60 or SEEDS=1-200
	@$(BIN)/python -m verify.logs $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

sim-edge: $(READY) ## simulate a tree of brokers over links that fail; make sim-edge SEEDS=1-5000, ARGS=bugs for its bug bank
	@$(BIN)/python -m verify.edge $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

edge-fire: $(READY) ## a tree of three real brokers in network namespaces while its links are cut (root); make edge-fire SECONDS=3600
	@$(BIN)/python -m verify.edge_fire $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

stores: $(READY) ## long tests of metadata stores: 10,000 random operations on each, etcd down for 60 s, eight processes
	@QANAT_STORE_OPERATIONS=10000 QANAT_STORE_OUTAGE_S=60 QANAT_STORE_ROUNDS=3 QANAT_STORE_PROCESSES=8 QANAT_STORE_SECONDS=30 \
		$(BIN)/python -m pytest -q --timeout=0 tests/contracts/test_metadata_stores_agree.py tests/adapters/test_etcd_outages.py tests/adapters/test_sqlite_processes.py tests/app/cluster/test_store_outage.py $(ARGS)

chaos: $(READY) ## three real brokers with a fault every five seconds; make chaos SECONDS=300 ARGS="--store etcd"
	@$(BIN)/python -m verify.chaos --seconds $(or $(SECONDS),1800) $(ARGS)

restart: $(READY) ## kill -9 a broker under load, then cut its power; make restart SECONDS=600
	@$(BIN)/python -m verify.restart kill $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)
	@$(BIN)/python -m verify.restart power $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

queue: $(READY) ## a queue with eight share consumers, some killed; make queue ARGS="--records 100000 --kills 100"
	@$(BIN)/python -m verify.share_queue $(ARGS)

app-fire: $(READY) ## an app of qanat.client while its workers and brokers are killed, on Qanat and on Apache Kafka; make app-fire ARGS="--on kafka --faults 100"
	@$(BIN)/python -m verify.app_fire $(ARGS)

diagnosis: $(READY) ## ten bottlenecks injected into real brokers, each of which qanat diagnose must name, then a minute of health; ARGS="--healthy 600"
	@$(BIN)/python -m verify.diagnosis $(ARGS)

spark-fire: $(READY) ## copy 1M records with Spark while driver, executors and broker are killed with -9
	@$(BIN)/python -m verify.spark_fire $(ARGS)

spark-backlog: $(READY) ## metrics, archive and mirror over 10M records each, killed with -9 in between; ARGS="--records 50000000 --pipeline metrics"
	@$(BIN)/python -m verify.spark_backlog $(ARGS)

security-fire: $(READY) ## rotate secrets of three brokers under load and kill -9, then lock an open cluster down; make security-fire SECONDS=600 ARGS="--store etcd"
	@$(BIN)/python -m verify.security_fire $(if $(SECONDS),--seconds $(SECONDS)) $(ARGS)

spark-connector: $(READY) ## compare format("qanat") with Spark's own Kafka connector on the same data
	@$(BIN)/python -m verify.connector $(ARGS)

bench-spark: $(READY) ## rows a second in Spark, compared with its own connector on Kafka and a source in memory
	@$(BIN)/python -m bench.spark $(ARGS)

fuzz: $(READY) ## mutated requests against a real node, before and after a login; make fuzz SECONDS=600, SEEDS=7 to replay one
	@QANAT_FUZZ_SECONDS=$(or $(SECONDS),60) QANAT_FUZZ_SEED=$(SEEDS) $(BIN)/python -m pytest -q --timeout=0 tests/servers/test_bad_input_fuzz.py tests/servers/test_bad_input_before_login.py $(ARGS)

fuzz-push: $(READY) ## ten million hostile push frames against a real broker, and as many damaged ones in this process, in some minutes; make fuzz-push FRAMES=1000000, SEEDS=7 to replay one
	@QANAT_FUZZ_FRAMES=$(or $(FRAMES),10000000) QANAT_FUZZ_SEED=$(SEEDS) $(BIN)/python -m pytest -q -s -n 0 --timeout=0 tests/servers/push/test_push_fuzz.py tests/servers/push/test_push_mutations.py $(ARGS)

bench-client: $(READY) $(PEERS_STAMP) ## measure the Python client beside others, and write docs/performance-client.md; make bench-client ARGS="--quick"
	@$(BIN)/python -m bench.client --page docs/performance-client.md $(ARGS)

bench-push: $(READY) $(PEERS_STAMP) ## compare push with NATS JetStream and Kafka consumers, and measure its rates; make bench-push ARGS="--quick"
	@$(BIN)/python -m bench.push $(ARGS)

bench-edge: $(READY) ## measure pipes over slow links beside bare TCP, and 10,000 edges at once; make bench-edge ARGS="--quick"
	@$(BIN)/python -m bench.edge $(ARGS)

docs: $(READY) $(DOCS_STAMP) ## build the documentation into ./site, offline, and check every link
	@$(BIN)/mkdocs build --strict --quiet
	@$(BIN)/python tools/check_site.py site
	@echo "Open site/index.html"

dist: $(READY) ## build a release into ./dist: sdist and compiled wheels for CPython 3.11 to 3.14; ARGS="--python 3.12" or "--here"
	@$(BIN)/python -m tools.build_dist dist $(ARGS)

deploy-test: $(READY) ## verify a release's wheels, image, compose file, unit and chart with the tools that are here; a skip says what was not
	@$(BIN)/python -m pytest -q -n 0 --timeout=3600 tests/deploy $(ARGS)

clean: ## remove built files; the environment stays
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src bench demo deploy tests tools verify -name __pycache__ -type d -prune -exec rm -rf {} +
	find src -name '*.so' -exec rm -f {} +
	rm -f $(NATIVE_STAMP)

distclean: clean ## remove the environment as well
	rm -rf $(VENV)

# From here on: the environment, which the targets above need.

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "qanat: no '$(PYTHON)' on this machine: install Python 3.11 or newer (Debian: apt install python3 python3-venv), or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "qanat: $$($(PYTHON) --version) is too old: install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "qanat: $(PYTHON) cannot make environments: install its venv module (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "Making $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)

# Build tools first, then no build isolation: they are pinned like everything else and fetched only once.
$(TOOLS_STAMP): pyproject.toml qanat-client/pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing Qanat and its tools into $(VENV) ..."
	@$(PIP) install -c constraints.txt setuptools hatchling Cython
	@QANAT_PURE=1 $(PIP) install -c constraints.txt --no-build-isolation -e ./qanat-client -e '.[dev]'
	@touch $@

$(NATIVE_STAMP): hatch_build.py $(NATIVE) $(TOOLS_STAMP)
	@$(BIN)/python hatch_build.py
	@touch $@

# By Qanat's extra, which is the one list of them.
$(PEERS_STAMP): Makefile $(TOOLS_STAMP)
	@$(PIP) install -c constraints.txt 'qanat[peers]'
	@touch $@

$(DOCS_STAMP): $(TOOLS_STAMP)
	@$(PIP) install -c constraints.txt 'mkdocs>=1.6,<2'
	@touch $@

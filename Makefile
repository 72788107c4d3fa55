# The two commands of this project are `make demo` and `make test`; the rest serves those who change it.

.PHONY: help demo test test-long gate calibrate simulate coverage nemesis bench rules recording deps fmt

help: ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: ## A whole upgrade of six instances under load; ARGS=--break-at=3, ARGS=--real, ARGS=--help
	@$(if $(filter --real,$(ARGS)),tools/deps servers,:)
	@cargo build --quiet --workspace --bins
	@target/debug/tidegate-demo $(ARGS)

test: ## Everything that must hold before a change lands; installs what it needs
	@tools/test

test-long: ## The longer forms: every crash point, more random worlds, 20 minutes of real faults, longer gate jobs
	@tools/test --long

gate: ## Gate jobs over real services: the sample service, Python on SQLite and MariaDB, Kinto from PyPI; reports in target/gates
	@tools/gate

calibrate: ## How far a verdict of zero-impact can be trusted on this machine; ARGS='--pairs 20' (release build, 25 minutes)
	@tools/calibrate $(ARGS)

simulate: ## Random worlds in simulated time, judged from outside; ARGS='--schedules 1000 --seed 1' (optimised build)
	@cargo build --quiet --profile simulate -p grenade-tests --bin tidegate-simulate
	@target/simulate/tidegate-simulate $(ARGS)

coverage: ## Lines of steps, acts, decisions and migrations that no simulated schedule reaches; ARGS as for simulate
	@tools/coverage $(ARGS)

nemesis: ## Faults on real processes, judged from outside; ARGS='--minutes 20 --seed 1', ARGS=--help
	@tools/deps servers
	@cargo build --quiet --workspace --bins
	@target/debug/tidegate-nemesis $(ARGS)

bench: ## The figures, as ratios in one run (release build)
	@tools/bench $(ARGS)

rules: ## Each guard of the rules and each seeded bug, switched off: the test or the simulated schedule that notices
	@tools/rules

recording: ## Records `make demo` as docs/upgrade.svg, for the README
	@cargo build --quiet --workspace --bins
	@cargo run --quiet --package grenade-tests --example recording -- docs/upgrade.svg target/debug/tidegate-demo

deps: ## Installs the servers and cargo tools that tests, gates, figures and `make demo ARGS=--real` use
	@tools/deps

fmt: ## Formats everything
	@cargo fmt --all

.PHONY: run test check bench

run:            ## serve on this machine, without torch
	./rsure up --no-ml

test:           ## everything
	./rsure test

check:          ## lint, types and architecture, in a minute
	./rsure test tests/architecture

bench:          ## benchmarks on this machine
	./rsure bench

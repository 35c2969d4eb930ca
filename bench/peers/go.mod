module github.com/spate-load/spate/bench/peers

go 1.26

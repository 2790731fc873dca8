//! Benchmarks of tollgate beside its peers: see `benches/` and `BENCHMARKS.md`.

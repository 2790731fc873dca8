//! Benchmarks of tollgate and comparable programs: see `benches/` and `BENCHMARKS.md`.

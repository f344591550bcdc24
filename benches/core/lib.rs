//! Measurements of `grpo-core`: `cargo bench -p grpo-bench-core`.

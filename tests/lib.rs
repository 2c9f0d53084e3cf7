//! The root package: integration tests, benchmarks and examples of the workspace.

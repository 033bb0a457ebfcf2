"""What injected faults cost: `injected` runs them on `fault_cases`, `figure` counts, `soak` goes on until time is up."""

"""What one launch does: discover the cases, prepare them, or measure them. A message goes in, records come out.

Read `jobs` first, then `bench` (a case as built), `prepare` (build, check, calibrate) and `measure` (warm up, sample, check
the last result). `instruments` makes timers and cache steps; `telemetry` watches the device through NVML; `plant` slows a
case on purpose; `restore` undoes what a case changed in the process and on the device. `origins`
reports where the project's modules came from. `helpers` are for case authors.
"""

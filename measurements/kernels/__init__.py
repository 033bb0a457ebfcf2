"""What kernels reach: `ceilings`, `ceilings_ops`, generated ones (`codegen`, `machine_code`) and `expectations`."""

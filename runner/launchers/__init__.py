"""How launches start: one interface, as local processes or in containers.

`launcher` has the interface and the local processes; `container` the same in docker or podman, whose arguments `sandbox`
makes (pure) and in which `inside` runs. `session` speaks with the warm parent of a side and bounds what comes back.
`probes` starts the process that measures ceilings; `host_settings` is what the machine decides, such as which launcher.
"""

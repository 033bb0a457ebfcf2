"""Can this machine be GitHub's runner for code of pull requests: `evenbench doctor --host`.

`examine` reads what there is; `gpu`, `engine` (containers) and `runner` turn it into checks (pure).
"""

from __future__ import annotations

from .examine import Host, examine_host

__all__ = ["Host", "examine_host"]

"""The launch side: a warm parent for each side, and the launches it starts.

Runs in the side's environment, which may hold none of our dependencies: only the standard library is needed, and
numpy, torch, cupti, pynvml are imported each only where used. Speaks JSON lines with the driver, over stdin and the
process's original stdout; every line out starts with the nonce of the launch that it belongs to.
"""

from __future__ import annotations

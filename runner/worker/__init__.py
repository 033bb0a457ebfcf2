"""The launch side: a warm parent for each side, and the launches it starts. Foreign code runs here.

``__main__`` loads the runner's folder under the name `evenbench`. `parent` imports torch once, never touches CUDA, and
starts every launch of its side; `children` forks or starts them as processes, and ends them. `launch` is what a launch does.
"""

from __future__ import annotations

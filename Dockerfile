# The harness and the stack it measures with. It holds no cases: those come with each side that is measured.
#   docker build --tag evenbench .                                  torch for CUDA, and CUPTI
#   docker build --build-arg STACK=cuda-devel --tag evenbench .     the same with nvcc, to build CUDA extensions
#   docker build --build-arg STACK=cpu --tag evenbench .            torch for the CPU, from an index that pip is given
# The stacks are files below scripts/stacks; `scripts/lock` locks them. torch's wheels bring CUDA's libraries, so a slim
# base is enough; the driver comes from the host.

# ---- the one place that names versions. scripts/lock and scripts/lib.sh read it, the build holds the stack against it,
# ---- and tests hold the locks and the documents against it.
ARG PYTHON=3.11
ARG CUDA=13.0
ARG TORCH=2.13.0
ARG CUPTI_PYTHON=13.4.0
ARG CUPTI=13.4.92
# The oldest driver that CUDA works with.
ARG DRIVER=580.65.06
# This name may be replaced by any Debian or Ubuntu that has this Python.
ARG BASE_IMAGE=pinned
FROM debian:bookworm-slim@sha256:7c7b2c966bc9ee8cedfeef67e0e279108992c77681fa595db4a9d65c06ccc587 AS pinned

# ---- stack: all but our own code, so that a change of that costs one small layer
# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS stack
SHELL ["/bin/sh", "-eu", "-c"]
ARG PYTHON

# gcc, g++ and Python's headers: Triton and torch.compile compile at run time. git: sides are checked out as worktrees.
# Packages are at the release's own versions: pinning them would break on every security update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        ca-certificates g++ gcc git "python${PYTHON}" "python${PYTHON}-dev" "python${PYTHON}-venv" \
    && rm -rf /var/cache/apt/* /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log \
    # A mounted checkout belongs to another user.
    && git config --system --add safe.directory '*' \
    # torch asks for the name of its user, so the id has an entry in passwd.
    && useradd --uid 10001 --user-group --no-log-init --create-home --shell /bin/sh evenbench \
    # Named volumes mounted here take this owner.
    && install --directory --owner 10001 --group 10001 /side /cache

# No pip ever resolves here: the locks say all. They go against what torch asks for in one thing, the newer libcupti.
# Where the build needs its own pip settings or certificate, they come as build secrets and are not kept:
#   --secret id=pipconf,src=pip.conf --secret id=ca,src=ca.crt    (pip.conf then says `cert = /run/secrets/ca`)
ENV PATH=/opt/evenbench/bin:/usr/local/cuda/bin:$PATH
ARG STACK=cuda
COPY scripts/stacks/${STACK}.txt /opt/evenbench/stack.txt
RUN --mount=type=secret,id=pipconf,target=/etc/pip.conf --mount=type=secret,id=ca \
    "python${PYTHON}" -m venv /opt/evenbench \
    && pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: --requirement /opt/evenbench/stack.txt

# The newer libcupti is written into what torch asks for as well, or pip could install nothing that needs torch.
# nvcc and what links against CUDA look for it in /usr/local/cuda, in the layout of NVIDIA's own packages.
ARG CUDA
ARG CUPTI
RUN packages="/opt/evenbench/lib/python${PYTHON}/site-packages"; cuda="$packages/nvidia/cu${CUDA%%.*}" \
    && for metadata in "$packages"/cuda_toolkit-*.dist-info/METADATA; do \
        [ ! -e "$metadata" ] || sed -i "s/^\(Requires-Dist: nvidia-cuda-cupti\)==[^;]*/\1==${CUPTI}/" "$metadata"; \
    done \
    && if [ -x "$cuda/bin/nvcc" ]; then \
        ln -s "$cuda" /usr/local/cuda; \
        ln -s lib "$cuda/lib64"; \
        for library in "$cuda"/lib/*.so.*; do ln -sf "${library##*/}" "${library%%.so.*}.so"; done; \
    fi

COPY .github/requirements.txt /opt/evenbench/requirements.txt
RUN --mount=type=secret,id=pipconf,target=/etc/pip.conf --mount=type=secret,id=ca \
    pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: \
        --requirement /opt/evenbench/requirements.txt

ARG TORCH
ARG CUPTI_PYTHON
COPY scripts/stacks/check.py /opt/evenbench/
RUN python -B /opt/evenbench/check.py "$STACK" "$PYTHON" "$TORCH" "$CUDA" "$CUPTI_PYTHON" "$CUPTI"

# ---- wheel: our own code, built with the locked tools
FROM stack AS wheel
WORKDIR /src
COPY LICENSE README.md pyproject.toml ./
COPY evenbench/ evenbench/
COPY reports/ reports/
COPY runner/ runner/
RUN pip wheel --no-deps --no-build-isolation --no-index --wheel-dir /wheel .

# ---- the image
FROM stack
# Copied, not mounted: a builder's cache may not look into a mount, and would keep an older evenbench.
COPY --from=wheel /wheel/ /opt/evenbench/wheel/
RUN pip install --no-cache-dir --no-deps --no-index /opt/evenbench/wheel/*.whl

# Caches live where a volume can hold them; all else may be mounted read-only.
# NVIDIA's container toolkit refuses a host whose driver is too old, and mounts what NVML needs.
ARG CUDA
ENV HOME=/home/evenbench \
    XDG_CACHE_HOME=/cache/xdg \
    CUDA_CACHE_PATH=/cache/cuda \
    CUPY_CACHE_DIR=/cache/cupy \
    FLASHINFER_WORKSPACE_BASE=/cache/flashinfer \
    NUMBA_CACHE_DIR=/cache/numba \
    TILELANG_CACHE_DIR=/cache/tilelang \
    TORCHINDUCTOR_CACHE_DIR=/cache/inductor \
    TORCH_EXTENSIONS_DIR=/cache/extensions \
    TRITON_CACHE_DIR=/cache/triton \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    NVIDIA_REQUIRE_CUDA="cuda>=${CUDA}"

ARG PYTHON
ARG TORCH
ARG CUPTI_PYTHON
ARG CUPTI
ARG DRIVER
ARG STACK=cuda
ARG VERSION=unknown
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="evenbench" \
      org.opencontainers.image.source="https://github.com/evenbench/evenbench" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      evenbench.stack="${STACK}" \
      evenbench.python="${PYTHON}" \
      evenbench.torch="${TORCH}" \
      evenbench.cuda="${CUDA}" \
      evenbench.cupti-python="${CUPTI_PYTHON}" \
      evenbench.cupti="${CUPTI}" \
      evenbench.driver="${DRIVER}"

USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["evenbench"]
CMD ["doctor"]

# The harness and the stack it measures with. It holds no cases: those come with each side that is measured.
#   docker build --tag evenbench .                       with torch and CUPTI
#   docker build --build-arg EXTRAS= --tag evenbench .   light, without a GPU stack
# torch's wheels bring CUDA's libraries, so a slim base is enough; the driver comes from the host.
ARG BASE_IMAGE=debian:bookworm-slim

# ---- build: everything that the running image does not need stays here
FROM ${BASE_IMAGE} AS build
SHELL ["/bin/sh", "-eu", "-c"]

# Package versions are the distribution's: the base image fixes the release, and pinning them breaks on every update.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /src
COPY LICENSE README.md pyproject.toml evenbench.py ./
COPY runner/ runner/
COPY reports/ reports/

# Extras of pyproject.toml, separated by commas.
ARG EXTRAS=cuda
# Where the build needs its own pip settings or certificate, they come as build secrets and are not kept:
#   --secret id=pipconf,src=pip.conf --secret id=ca,src=ca.crt    (pip.conf then says `cert = /run/secrets/ca`)
RUN --mount=type=secret,id=pipconf,target=/etc/pip.conf --mount=type=secret,id=ca \
    python3 -m venv /opt/evenbench \
    && /opt/evenbench/bin/pip install --no-cache-dir ".${EXTRAS:+[${EXTRAS}]}"

# ---- the image
FROM ${BASE_IMAGE}
SHELL ["/bin/sh", "-eu", "-c"]

# gcc and Python's headers: Triton and torch.compile compile at run time. git: sides are checked out as worktrees.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates gcc git libc6-dev python3 python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/* \
    # torch asks for the name of its user, so the id has an entry in passwd.
    && useradd --uid 10001 --user-group --no-log-init --create-home --shell /bin/sh evenbench \
    # Named volumes mounted here take this owner.
    && install --directory --owner 10001 --group 10001 /side /cache

COPY --from=build /opt/evenbench /opt/evenbench

# Caches live where a volume can hold them; all else may be mounted read-only.
ENV PATH=/opt/evenbench/bin:$PATH \
    HOME=/home/evenbench \
    XDG_CACHE_HOME=/cache \
    TORCHINDUCTOR_CACHE_DIR=/cache/inductor \
    TRITON_CACHE_DIR=/cache/triton \
    CUDA_CACHE_PATH=/cache/cuda \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1

ARG VERSION=unknown
ARG COMMIT=unknown
ARG EXTRAS=cuda
LABEL org.opencontainers.image.title="evenbench" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}" \
      evenbench.stack="${EXTRAS}"

USER 10001:10001
WORKDIR /home/evenbench
ENTRYPOINT ["evenbench"]
CMD ["doctor"]
